"""Frames: they are complete however the bytes are split, and invalid ones are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwell.errors import FrameError
from ackwell.protocol import messages
from ackwell.protocol.constants import CommandType
from ackwell.protocol.frames import Frame, FrameReader, decode, encode, frame

PING = encode(CommandType.PING, messages.CommandPing())


@given(
    frames=st.lists(st.tuples(st.binary(max_size=30), st.binary(max_size=30)), max_size=6),
    cuts=st.lists(st.integers(0, 400), max_size=8),
)
def test_frames_come_out_as_they_went_in_however_the_bytes_are_cut(
    frames: list[tuple[bytes, bytes]], cuts: list[int]
) -> None:
    data = b"".join(frame(*each) for each in frames)
    reader, read, at = FrameReader(), list[Frame](), 0
    for cut in [*sorted(cuts), len(data)]:
        read += reader.feed(data[at:cut])
        at = max(at, cut)
    assert frames == [(each.command, each.payload) for each in read]
    assert data == b"".join(each.raw for each in read)
    assert reader.unfinished_bytes == 0


@given(
    frames=st.lists(st.tuples(st.binary(max_size=30), st.binary(max_size=30)), min_size=1, max_size=6),
    cut=st.integers(0, 400),
    more=st.integers(0, 400),
)
def test_a_discarded_payload_is_empty_and_the_frames_around_it_are_whole(
    frames: list[tuple[bytes, bytes]], cut: int, more: int
) -> None:
    data = b"".join(frame(*each) for each in frames)
    reader = FrameReader()
    read = list(reader.feed(data[:cut]))
    discarded = len(read) if reader.unfinished_sizes is not None else -1
    if discarded >= 0:
        reader.discard_payload()
        assert reader.unfinished_bytes <= 8 + len(frames[discarded][0])
    read += reader.feed(data[cut : cut + more])
    read += reader.feed(data[cut + more :])
    expected = [(command, b"" if at == discarded else body) for at, (command, body) in enumerate(frames)]
    assert [(each.command, each.payload) for each in read] == expected
    assert reader.unfinished_bytes == 0


def test_a_discarded_frame_with_a_larger_command_is_refused() -> None:
    reader = FrameReader()
    assert not list(reader.feed(bytes.fromhex("00000020 00000090 0000")))
    with pytest.raises(FrameError, match="a command of 144 bytes in a frame of 32"):
        reader.discard_payload()


@given(st.binary(max_size=200))
def test_bytes_at_random_are_frames_or_refused_and_never_held_beyond_the_limit(data: bytes) -> None:
    reader = FrameReader(max_frame_bytes=64)
    try:
        for each in reader.feed(data):
            decode(each.command)
    except FrameError:
        return
    assert reader.unfinished_bytes <= 64 + 4


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (bytes.fromhex("7fffffff"), "a frame of 2147483647 bytes; expected 4 to 5253120"),
        (bytes.fromhex("00000003 000000"), "a frame of 3 bytes"),
        (bytes.fromhex("00000006 00000009 0000"), "a command of 9 bytes in a frame of 6"),
    ],
)
def test_a_size_that_cannot_be_is_refused_before_its_bytes_are_waited_for(data: bytes, message: str) -> None:
    with pytest.raises(FrameError, match=message):
        list(FrameReader().feed(data))


def test_the_frames_before_a_bad_one_are_read() -> None:
    frames = FrameReader().feed(frame(PING) + bytes(4))
    assert decode(next(frames).command).type == CommandType.PING
    with pytest.raises(FrameError, match="a frame of 0 bytes"):
        next(frames)


def test_every_command_type_has_a_field_of_its_number() -> None:
    for each in CommandType:
        assert decode(b"\x08\x12\x92\x01\x00") == (CommandType.PING, messages.CommandPing())
        with pytest.raises(FrameError, match=f"type {each} without"):
            decode(messages.BaseCommand(type=each).SerializeToString())


def test_a_command_of_a_newer_peer_is_none_that_we_know() -> None:
    assert decode(messages.BaseCommand(type=70).SerializeToString()) == (70, None)


def test_a_command_without_a_required_field_is_refused() -> None:
    with pytest.raises(FrameError, match="not a CommandFlow: without consumer_id"):
        decode(encode(CommandType.FLOW, messages.CommandPing()))


def test_a_command_whose_type_comes_last_and_that_lacks_a_required_field_is_a_frame_error() -> None:
    subscribe = messages.message("BaseCommand")()
    subscribe.type = CommandType.SEND_ERROR
    subscribe.send_error.producer_id = 1
    fields = subscribe.SerializePartialToString()
    # The type after the message, an encoding that only `decode` reads.
    odd = fields[2:] + fields[:2]
    with pytest.raises(FrameError):
        decode(odd)
