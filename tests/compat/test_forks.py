"""Drop-in buffers in children of a process whose threads were using them."""

from __future__ import annotations

import faulthandler
import os
import threading
import traceback

import numpy as np
from gymnasium import spaces

from relive.compat import drawing
from relive.compat.xuance.v1_1.memory_tools import DummyOffPolicyBuffer


def test_a_lock_that_a_thread_of_the_parent_holds() -> None:
    buffer = DummyOffPolicyBuffer(spaces.Box(-1, 1, (3,)), spaces.Discrete(2), None, 2, 10, 4)
    step = (
        np.zeros((2, 3), np.float32),
        np.zeros(2, int),
        np.zeros(2),
        np.zeros(2, bool),
        np.zeros((2, 3), np.float32),
    )
    for _ in range(5):
        buffer.store(*step)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with buffer._lock, drawing._lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(20, exit=True)
        code = 1
        try:
            buffer.store(*step)
            buffer.sample()
            buffer.state_dict()
            drawing.generator(buffer._parts()[0])
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    done.set()
    thread.join()
    assert code == 0
