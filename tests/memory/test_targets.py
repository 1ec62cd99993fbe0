"""Targets by numbers on paper, against published implementations, and against a plain loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from relive import targets
from relive.errors import OptionError

# Inputs, and what rlax 0.1.9 gives for them in float64 (GAE, TD(lambda) and returns agree with torchrl 0.14.1).
GAMMA, LAM = 0.9, 0.8
REWARD = [[1.0, -0.5], [0.25, 0.75], [-1.5, 2.0], [0.4, 0.0], [2.2, -1.25], [-0.3, 0.6]]
VALUE = [[0.5, 1.2], [-0.7, 0.35], [1.1, -0.9], [0.8, 2.05], [-1.3, 0.15], [0.65, -0.4]]
# 7.77 follows a termination: it must not matter.
NEXT_VALUE = [[-0.7, 0.35], [1.1, -0.9], [7.77, 2.05], [-1.3, 0.15], [0.65, -0.4], [1.45, -0.85]]
TERMINATED = np.array([[0, 0], [0, 0], [1, 0], [0, 0], [0, 0], [0, 0]], bool)
RATIO = [[0.6, 1.5], [1.9, 0.3], [0.45, 1.0], [1.25, 0.8], [0.35, 2.0], [1.1, 0.7]]
Q = [[0.3, 1.05], [-0.45, 0.6], [0.95, -1.2], [1.15, 1.7], [-0.9, 0.4], [0.2, -0.65]]

GAE = [
    [-0.08104, -0.36267122],
    [0.068, 1.4199011],
    [-2.6, 2.5415293],
    [1.555232, -3.060376],
    [4.3406, -1.5908],
    [0.355, 0.235],
]
TD_LAMBDA = [
    [0.41896, 0.83732878],
    [-0.632, 1.7699011],
    [-1.5, 1.6415293],
    [2.355232, -1.010376],
    [3.0406, -1.4408],
    [1.005, -0.165],
]
RETURNS = [
    [0.01, 0.87744415],
    [-1.1, 1.5304935],
    [-1.5, 0.867215],
    [3.19405, -1.25865],
    [3.1045, -1.3985],
    [1.005, -0.165],
]
THREE_STEP = [[0.01, 3.28945], [-1.1, 2.65935], [-1.5, 0.6959], [3.19405, -1.25865], [3.1045, -1.3985], [1.005, -0.165]]
VTRACE = [
    [0.90098, 0.26846251],
    [0.187, 0.85384723],
    [-0.07, 1.4216564],
    [0.6174175, -0.642604],
    [0.241575, -1.46195],
    [1.005, -0.2355],
]
VTRACE_ADVANTAGE = [
    [0.40098, -0.93153749],
    [0.887, 0.50384723],
    [-1.17, 2.3216564],
    [-0.1825825, -2.692604],
    [1.541575, -1.61195],
    [0.355, 0.1645],
]
VTRACE_LAM = [
    [0.8961632, 0.18696151],
    [0.3976, 0.8666132],
    [-0.07, 2.0611722],
    [0.3238312, -0.42753856],
    [0.21921, -1.49156],
    [1.005, -0.2355],
]
VTRACE_RHO = [
    [1.42478, -0.56260581],
    [1.157, 0.69988243],
    [-0.07, 0.8514164],
    [0.23498175, -1.276204],
    [0.2527575, -2.34195],
    [1.0405, -0.2355],
]
RETRACE = [
    [1.015264, 0.20297268],
    [0.4462, 2.3961698],
    [-1.5, 2.211347],
    [0.3046792, -1.1362032],
    [3.3646, -1.36556],
    [1.005, -0.165],
]

precisions = pytest.mark.parametrize(("dtype", "atol"), [("float64", 1e-7), ("float32", 2e-6)])


def arrays(dtype: str, *values: Any) -> list[Any]:
    return [np.asarray(value, dtype) for value in values]


@precisions
def test_published_values(dtype: str, atol: float) -> None:
    r, v, nv, w, q = arrays(dtype, REWARD, VALUE, NEXT_VALUE, RATIO, Q)
    ends = {"terminated": TERMINATED, "gamma": GAMMA}
    advantage, returns = targets.gae(r, v, nv, lam=LAM, **ends)
    target, gradient = targets.vtrace(r, v, nv, ratio=w, **ends)
    found = {
        "gae": (advantage, GAE),
        "gae returns": (returns, TD_LAMBDA),
        "td_lambda": (targets.td_lambda(r, nv, lam=LAM, **ends), TD_LAMBDA),
        "discounted": (targets.discounted_returns(r, nv, **ends), RETURNS),
        "n step": (targets.n_step_returns(r, nv, n=3, **ends), THREE_STEP),
        "vtrace": (target, VTRACE),
        "vtrace advantage": (gradient, VTRACE_ADVANTAGE),
        "vtrace lambda": (targets.vtrace(r, v, nv, ratio=w, lam=LAM, **ends)[0], VTRACE_LAM),
        "vtrace rho": (targets.vtrace(r, v, nv, ratio=w, rho_bar=1.5, **ends)[0], VTRACE_RHO),
        "retrace": (targets.retrace(r, q, nv, ratio=w, lam=LAM, **ends), RETRACE),
    }
    for name, (value, expected) in found.items():
        assert value.dtype == dtype, name
        np.testing.assert_allclose(value, expected, rtol=0, atol=atol, err_msg=name)


def test_truncation_by_three_numbers() -> None:
    """Rewards 1, 2, 4, cut off after the second; the final observation is worth 10, the last step's 6; gamma 1/2."""
    r, v, nv = [[1.0], [2.0], [4.0]], [[3.0], [5.0], [7.0]], [[5.0], [10.0], [6.0]]
    cut = {"terminated": np.zeros((3, 1), bool), "truncated": np.array([[False], [True], [False]]), "gamma": 0.5}
    # deltas: 1 + 2.5 - 3, 2 + 5 - 5, 4 + 3 - 7
    assert targets.gae(r, v, nv, lam=1.0, **cut)[0].ravel().tolist() == [0.5 + 0.5 * 2, 2.0, 0.0]
    assert targets.discounted_returns(r, nv, **cut).ravel().tolist() == [1 + 0.5 * 7, 2 + 5, 4 + 3]
    assert targets.td_lambda(r, nv, lam=0.5, **cut).ravel().tolist() == [1 + 0.5 * (2.5 + 3.5), 7.0, 7.0]
    assert targets.n_step_returns(r, nv, n=3, **cut).ravel().tolist() == [4.5, 7.0, 7.0]
    assert targets.vtrace(r, v, nv, ratio=np.ones((3, 1)), **cut)[0].ravel().tolist() == [4.5, 7.0, 7.0]
    assert targets.retrace(r, v, nv, ratio=np.ones((3, 1)), **cut).ravel().tolist() == [1 + 0.5 * (5 + 2), 7.0, 7.0]


def step_by_step(r: Any, v: Any, nv: Any, term: Any, trunc: Any, mask: Any, gamma: float, lam: float) -> Any:
    """Advantage of one column, from the definition: the discounted sum of TD errors to the episode's end."""
    out = np.zeros(len(r))
    for t in range(len(r)):
        weight = 1.0
        for k in range(t, len(r)):
            if not mask[k]:
                break
            alive = 0.0 if term[k] else 1.0
            out[t] += weight * (r[k] + gamma * alive * nv[k] - v[k])
            if term[k] or trunc[k]:
                break
            weight *= gamma * lam
    return out


@given(st.integers(0, 12), st.integers(1, 4), st.integers(0, 2**32), st.booleans())
def test_gae_is_its_definition(time: int, width: int, seed: int, single: bool) -> None:
    random = np.random.default_rng(seed)
    shape = (time, width)
    dtype = np.float32 if single else np.float64
    r, v, nv = (random.standard_normal(shape).astype(dtype) for _ in range(3))
    term, trunc, mask = (random.random(shape) < p for p in (0.2, 0.2, 0.8))
    advantage, returns = targets.gae(r, v, nv, terminated=term, truncated=trunc, mask=mask, gamma=0.9, lam=0.7)
    for n in range(width):
        expected = step_by_step(r[:, n], v[:, n], nv[:, n], term[:, n], trunc[:, n], mask[:, n], 0.9, 0.7)
        np.testing.assert_allclose(advantage[:, n], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(returns, np.where(mask, advantage + v, 0), rtol=1e-4, atol=1e-5)


@given(st.integers(1, 10), st.integers(0, 2**32))
def test_lambda_one_and_many_steps_are_the_same(time: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    r, v, nv = (random.standard_normal((time, 2)) for _ in range(3))
    term, trunc, mask = (random.random((time, 2)) < p for p in (0.2, 0.2, 0.8))
    ends = {"terminated": term, "truncated": trunc, "mask": mask, "gamma": 0.9}
    whole = targets.discounted_returns(r, nv, **ends)
    np.testing.assert_allclose(targets.td_lambda(r, nv, lam=1.0, **ends), whole)
    np.testing.assert_allclose(targets.n_step_returns(r, nv, n=time, **ends), whole)
    one_step = targets.n_step_returns(r, nv, n=1, **ends)
    np.testing.assert_allclose(targets.td_lambda(r, nv, lam=0.0, **ends), one_step)
    ones = np.ones_like(r)
    np.testing.assert_allclose(targets.retrace(r, v, nv, ratio=ones * 0, lam=1.0, **ends), one_step)
    np.testing.assert_allclose(targets.vtrace(r, v, nv, ratio=ones * 0, **ends)[0], np.where(mask, v, 0))


def test_nothing_crosses_an_episodes_end() -> None:
    """Not even infinity and NaN, which times zero are not zero."""
    nv = [[0.0, 0.0], [np.inf, 0.0], [0.0, np.nan]]
    term = np.array([[False, False], [True, False], [False, False]])
    trunc = np.array([[False, False], [False, True], [False, False]])
    for dtype in ("float32", "float64"):
        r, v, nv_ = arrays(dtype, np.ones((3, 2)), np.zeros((3, 2)), nv)
        ends = {"terminated": term, "truncated": trunc, "gamma": 0.5}
        assert np.isfinite(targets.gae(r, v, nv_, lam=0.5, **ends)[0][:2]).all()
        assert np.isfinite(targets.td_lambda(r, nv_, lam=0.5, **ends)[:2]).all()
        assert np.isfinite(targets.n_step_returns(r, nv_, n=3, **ends)[:2]).all()


def test_padded_episodes_may_leave_next_values_out() -> None:
    """The row after a truncated step is its final observation there, and masked."""
    r, v = np.ones((3, 1)), np.arange(4.0)[:, None]
    cut, mask = np.array([[False], [True], [False]]), np.array([[True], [True], [False]])
    ends = {"terminated": np.zeros((3, 1), bool), "truncated": cut, "mask": mask, "gamma": 0.5, "lam": 0.5}
    short = targets.gae(r, v, **ends)[0]
    np.testing.assert_array_equal(short, targets.gae(r, v[:-1], v[1:], **ends)[0])


def test_agents_share_the_flags_of_their_environment() -> None:
    random = np.random.default_rng(0)
    r, v, nv = (random.standard_normal((5, 3, 2)) for _ in range(3))
    term = random.random((5, 3)) < 0.3
    together = targets.gae(r, v, nv, terminated=term)[0]
    for agent in range(2):
        alone = targets.gae(r[..., agent], v[..., agent], nv[..., agent], terminated=term)[0]
        np.testing.assert_array_equal(together[..., agent], alone)


def test_values_one_longer_stand_for_next_values() -> None:
    r, v, _ = arrays("float64", REWARD, VALUE, NEXT_VALUE)
    longer = np.concatenate([v, [NEXT_VALUE[-1]]])
    np.testing.assert_allclose(targets.gae(r, longer, terminated=TERMINATED, gamma=GAMMA, lam=LAM)[0], GAE, atol=1e-7)


def test_normalize_masked() -> None:
    values = np.array([[1.0, 3.0], [500.0, 5.0]], np.float32)
    mask = np.array([[True, True], [False, True]])
    found = targets.normalize(values, mask=mask)
    assert found.dtype == np.float32
    assert found[1, 0] == 0
    np.testing.assert_allclose(found[mask], (np.array([1, 3, 5]) - 3) / np.sqrt(8 / 3), rtol=1e-6)
    assert targets.normalize(np.ones((2, 2))).tolist() == [[0, 0], [0, 0]]
    assert targets.normalize(values, mask=np.zeros((2, 2), bool)).tolist() == [[0, 0], [0, 0]]


FLAGS = np.zeros((6, 2), bool)


@pytest.mark.parametrize(
    ("call", "about"),
    [
        (
            lambda: targets.gae([1.0], [1.0], [1.0], terminated=[False]),
            "reward",
        ),
        (
            lambda: targets.gae(REWARD, VALUE, terminated=FLAGS),
            "value",
        ),
        (
            lambda: targets.gae(REWARD, [*VALUE, [0, 0]], terminated=FLAGS, truncated=~FLAGS),
            "next_value",
        ),
        (
            lambda: targets.gae(REWARD, VALUE[:3], NEXT_VALUE, terminated=FLAGS),
            "value",
        ),
        (
            lambda: targets.td_lambda(REWARD, NEXT_VALUE, terminated=np.zeros((6, 2))),
            "terminated",
        ),
        (
            lambda: targets.td_lambda(REWARD, NEXT_VALUE, terminated=FLAGS[:3]),
            "terminated",
        ),
        (
            lambda: targets.td_lambda(REWARD, NEXT_VALUE, terminated=FLAGS, gamma=1.1),
            "gamma",
        ),
        (
            lambda: targets.n_step_returns(REWARD, NEXT_VALUE, n=0, terminated=FLAGS),
            "n",
        ),
        (
            lambda: targets.vtrace(REWARD, VALUE, NEXT_VALUE, ratio=RATIO, terminated=FLAGS, rho_bar=-1),
            "rho_bar",
        ),
        (lambda: targets.normalize(["a"]), "values"),
    ],
)
def test_what_is_refused(call: Any, about: str) -> None:
    with refused(OptionError, about):
        call()
