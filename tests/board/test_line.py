"""The host's side of a line, before a board that is played: what goes wrong is mended or told."""

import numpy as np
import pytest
from penstock.board.device import Device
from penstock.board.link import TRIES, Link
from penstock.machine.errors import RunError
from penstock.machine.host_frames import FLAG, Operation, Status, frame, unframed
from penstock.machine.host_map import MAP_ID, REGISTERS, register, window

DESIGN = 0xC0FFEE


class Board:
    """Answers requests from a table of words; ``harm(n, answer)`` may change the n-th answer."""

    def __init__(self, harm=lambda n, answer: answer, reset_at=()):
        self.words = {}
        self.harm = harm
        self.reset_at = set(reset_at)
        self.asked = 0
        self.bytes = b""
        self.reset()

    def reset(self):
        for r in REGISTERS:
            self.words[r.address] = 0
        fixed = {"ID": MAP_ID, "DESIGN": DESIGN, "MEMORY_BYTES": 4096, "STREAM_BEATS": 16}
        for name, value in fixed.items():
            self.words[register(name).address] = value

    def write(self, data):
        self.asked += 1
        if self.asked in self.reset_at:
            self.reset()
        words = unframed(data.strip(bytes([FLAG])))
        self.bytes += self.harm(self.asked, self.answer(words))

    def answer(self, words):
        if words is None:
            return frame([0, Status.DAMAGED])
        head, address, *data = words
        count = head >> 16
        if address >= window("MEMORY").base + 4096:
            return frame([head, *([0] * count if not data else []), Status.REFUSED])
        if head >> 8 & 0xFF == Operation.WRITE:
            self.words |= {address + 4 * k: word for k, word in enumerate(data)}
            if address == register("CONTROL").address and data[0]:
                self.words[register("STATUS").address] = 1
                self.words[register("CYCLES").address] = 42
            return frame([head, Status.DONE])
        read = [self.words.get(address + 4 * k, 0) for k in range(count)]
        return frame([head, *read, Status.DONE])

    def read(self, size):
        out = self.bytes[:size]
        self.bytes = self.bytes[size:]
        return out


def link(board):
    return Link(board, "line", 1_000_000, answer_seconds=0.02)


def image(n=1000):
    return np.arange(n, dtype=np.uint32).astype(np.uint8)


def test_an_image_is_loaded_and_a_run_is_read():
    board = Board()
    device = Device(link(board), DESIGN)
    loaded = device.load(image(), {3: 9}, {0: np.arange(6, dtype=np.uint32).reshape(2, 3)})
    assert (loaded.frames, loaded.reloads) == (0, 0)
    assert np.array_equal(device.memory(1000), image())
    assert board.words[window("CONFIGURATION").base + 12] == 9
    stream = window("STREAMS").base
    assert [board.words[stream + 4 * k] for k in range(8)] == [0, 1, 2, 0, 3, 4, 5, 0]
    assert device.run(2, 1.0).cycles == 42
    assert np.array_equal(device.stream(0, 3), np.arange(6).reshape(2, 3))


HARMS = {
    "a wrong CRC": lambda n, answer: answer[:3] + bytes([answer[3] ^ 4]) + answer[4:],
    "a lost answer": lambda n, answer: b"",
    "half an answer": lambda n, answer: answer[: len(answer) // 2],
    "noise before it": lambda n, answer: bytes([1, 2, 3]) + answer,
    "a request that came damaged": lambda n, answer: frame([0, Status.DAMAGED]),
    "a doubled answer": lambda n, answer: 2 * answer,
    "a word too many": lambda n, answer: resized(answer, [0]),
    "a word too few": lambda n, answer: resized(answer, []),
}


def resized(answer, more):
    """An answer with another count of words before its status, whose CRC is right."""
    words = unframed(answer.strip(bytes([FLAG]))) or []
    return frame([*(words[:-1] if more else words[:-2]), *more, *words[-1:]])


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
def test_every_third_answer_is_harmed_and_all_is_mended(harm):
    board = Board(lambda n, answer: answer if n % 3 else harm(n, answer))
    device = Device(link(board), DESIGN)
    device.load(image(), {}, {})
    assert np.array_equal(device.memory(1000), image())


def test_a_late_answer_is_not_that_of_the_next_request():
    """Each answer comes twice, the second time before the next one."""
    held = [b""]

    def late(n, answer):
        held.append(answer)
        return held.pop(0) + answer

    device = Device(link(Board(late)), DESIGN)
    device.load(image(), {}, {})
    assert np.array_equal(device.memory(1000), image())


def test_a_write_whose_answer_has_words_is_not_done():
    board = Board(lambda n, answer: resized(answer, [0]))
    with pytest.raises(RunError, match=f"answers have another count of words, {TRIES} times"):
        link(board).write(window("MEMORY").base, [1])


def test_a_silent_board_is_refused():
    board = Board(lambda n, answer: b"")
    with pytest.raises(RunError, match=f"no answer in 0.02 s, {TRIES} times"):
        Device(link(board), DESIGN)
    assert board.asked == TRIES


def test_a_reset_in_mid_load_is_loaded_again():
    board = Board(reset_at=[8])
    device = Device(link(board), DESIGN)
    assert device.load(image(), {}, {}).reloads == 1
    assert np.array_equal(device.memory(1000), image())


@pytest.mark.parametrize(
    "asked",
    [2, 3, 4, 5],
    ids=["before its status", "between two questions", "before its cycles", "before its counters"],
)
def test_a_reset_in_a_run_is_refused(asked):
    """The first question of a run starts it."""
    board = Board()
    device = Device(link(board), DESIGN)
    device.load(image(), {}, {})
    board.reset_at = {board.asked + asked}
    with pytest.raises(RunError, match="reset during the run"):
        device.run(2, 1.0)


def test_another_design_is_refused():
    with pytest.raises(RunError, match="holds design 00c0ffee, the program needs 00000001"):
        Device(link(Board()), 1)


def test_an_image_that_does_not_fit_is_refused_before_loading():
    board = Board()
    device = Device(link(board), DESIGN)
    with pytest.raises(RunError, match="take 5000 bytes, the board's memory has 4096"):
        device.load(image(5000), {}, {})
    with pytest.raises(RunError, match="a stream has 17 beats, the board's memory of it 16"):
        device.load(image(), {}, {0: np.zeros((17, 1), np.uint32)})
    assert not any(address >= window("STREAMS").base for address in board.words)


def test_a_refusal_is_reported():
    with pytest.raises(RunError, match="refuses to read 1 words at 0x80001000"):
        link(Board()).read(window("MEMORY").base + 4096)


def test_a_run_that_does_not_end_is_reported():
    board = Board()
    device = Device(link(board), DESIGN)
    device.load(image(), {}, {})
    board.harm = lambda n, answer: answer
    board.answer = lambda words, kept=board.answer: (
        frame([words[0], 0, 0]) if words[1] == register("STATUS").address else kept(words)
    )
    with pytest.raises(RunError, match=r"has not ended after 0\.05 s"):
        device.run(1, 0.05)
