"""flashbax's item buffers, compiled with donated state; JAX keeps 64-bit integers in 32 bits.

Unless the environment variable NPROC says otherwise, JAX takes as many threads as it finds cores.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import metadata
from itertools import cycle
from typing import Any

import flashbax
import jax
import jax.numpy as jnp
import numpy as np

from workloads import Columns, EpisodeSpec, GaeSpec, PrioritySpec, RowSpec

NAME = "flashbax"

# Nothing here overlaps with the host, so handing work to another thread only costs.
jax.config.update("jax_cpu_enable_async_dispatch", False)


def version() -> str:
    """The versions of flashbax and JAX."""
    return f"{metadata.version('flashbax')}, jax {jax.__version__}"


def _narrow(columns: Columns) -> Columns:
    return {name: column.astype(np.int32) if column.dtype == np.int64 else column for name, column in columns.items()}


def _filled(spec: RowSpec | EpisodeSpec, buffer: Any) -> Any:
    state, add = None, jax.jit(buffer.add, donate_argnums=0)
    for chunk in map(_narrow, spec.chunks()):
        if state is None:
            state = buffer.init({name: jnp.asarray(column[0]) for name, column in chunk.items()})
        state = add(state, chunk)
    return jax.block_until_ready(state)


def _item_buffer(spec: RowSpec | EpisodeSpec) -> Any:
    return flashbax.make_item_buffer(spec.capacity, spec.batch, spec.batch, add_batches=True)


def _sampler(spec: RowSpec | EpisodeSpec) -> Callable[[], Any]:
    buffer = _item_buffer(spec)
    state, key = _filled(spec, buffer), jax.random.key(spec.seed)

    @jax.jit
    def draw(state: Any, key: jax.Array) -> tuple[jax.Array, Any]:
        key, used = jax.random.split(key)
        return key, buffer.sample(state, used).experience

    def sample() -> Any:
        nonlocal key
        key, batch = draw(state, key)
        return jax.block_until_ready(batch)

    return sample


w1 = w3 = w4 = w5 = _sampler


def w2(spec: PrioritySpec) -> Callable[[], Any]:
    """Prioritised sampling with weights scaled by the batch's largest, then the update."""
    buffer = flashbax.make_prioritised_item_buffer(
        spec.capacity, spec.batch, spec.batch, add_batches=True, priority_exponent=spec.alpha
    )
    assign = jax.jit(buffer.set_priorities, donate_argnums=0)
    state, key = _filled(spec, buffer), jax.random.key(spec.seed)
    state = assign(state, jnp.arange(spec.capacity), spec.priorities())
    news = cycle(spec.new_priorities())

    @jax.jit
    def draw(state: Any, key: jax.Array) -> tuple[jax.Array, Any, jax.Array]:
        key, used = jax.random.split(key)
        batch = buffer.sample(state, used)
        weight = (batch.probabilities * spec.capacity) ** -spec.beta
        return key, batch, weight / weight.max()

    def sample_and_update() -> Any:
        nonlocal state, key
        key, batch, weight = jax.block_until_ready(draw(state, key))
        state = assign(state, batch.indices, next(news))
        jax.block_until_ready(state.sum_tree_state)
        return batch, weight

    return sample_and_update


def _appender(spec: RowSpec) -> Callable[[], None]:
    buffer = _item_buffer(spec)
    step = {name: jnp.asarray(column) for name, column in spec.step().items()}
    state, add = _filled(spec, buffer), jax.jit(buffer.add, donate_argnums=0)

    def append() -> None:
        nonlocal state
        state = jax.block_until_ready(add(state, step))

    return append


w6a = w6b = _appender


def w7(spec: GaeSpec) -> Callable[[], jax.Array]:
    """A compiled backward scan over time, plain JAX."""
    data = {name: jnp.asarray(column) for name, column in spec.rollout().items()}

    @partial(jax.jit, static_argnums=(4, 5))
    def scan(
        reward: jax.Array, value: jax.Array, done: jax.Array, last_value: jax.Array, gamma: float, lam: float
    ) -> jax.Array:
        following = jnp.concatenate([value[1:], last_value[None]])
        discount = gamma * (1 - done)
        delta = reward + discount * following - value

        def back(running: jax.Array, now: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            running = now[0] + lam * now[1] * running
            return running, running

        return jax.lax.scan(back, jnp.zeros_like(last_value), (delta, discount), reverse=True, unroll=8)[1]

    arguments = (data["reward"], data["value"], data["done"], data["last_value"], spec.gamma, spec.lam)
    return lambda: jax.block_until_ready(scan(*arguments))
