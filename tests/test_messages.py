"""Parts of messages."""

from relive.messages import brief, did_you_mean


def test_values_in_brief() -> None:
    assert brief([1, 2]) == "[1, 2]"
    assert brief("x" * 100) == "'" + "x" * 56 + "..."
    assert brief(list(range(100)), 80).endswith("...")
    assert len(brief(list(range(100)), 80)) == 80
    assert brief(10**5000) == "a number of very many digits"


def test_the_name_that_was_meant() -> None:
    assert did_you_mean("smaple_spread", ["simple_spread", "simple_tag"]) == "Did you mean 'simple_spread'?"
    assert did_you_mean("zzz", ["simple_spread"], "`relive envs` lists them.") == "`relive envs` lists them."
    assert did_you_mean("zzz", []) == ""
    assert did_you_mean("PPO", ["ppo", "dqn"]) == "Did you mean 'ppo'?"
    assert did_you_mean(12, [1, 123]) == "Did you mean '123'?"
