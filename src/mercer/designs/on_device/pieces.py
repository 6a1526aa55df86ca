"""Arrays that go to a device piece by piece, each while the one before is worked on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.devices import Device

__all__ = ["sent_ahead"]


def sent_ahead(device: Device, pieces: Iterable[NDArray]) -> Iterator[Any]:
    """A tensor of every array; on a GPU the next one is copied meanwhile, through pinned memory."""
    if not device.is_gpu:
        yield from map(device.array, pieces)
        return
    sender, ahead = _Sender(device), None
    for piece in pieces:
        sent = sender.send(np.ascontiguousarray(piece))
        if ahead is not None:
            yield sender.received(ahead)
        ahead = sent
    if ahead is not None:
        yield sender.received(ahead)


class _Sender:
    """Copies arrays to a GPU on a stream of its own."""

    def __init__(self, device: Device):
        self.device, self.torch = device, device.torch
        self._stream = self.torch.cuda.Stream(device.name)
        self._turn = 0
        self._buffers: list[Any] = [None, None]
        self._copied: list[Any] = [None, None]  # events: nothing more is read from the buffer

    def send(self, piece: NDArray) -> tuple[Any, Any]:
        """Begin to copy an array: the tensor to be, and the event that says that it is one."""
        torch, turn = self.torch, self._turn
        self._turn = 1 - turn
        kind = getattr(torch, piece.dtype.name)
        buffer = self._buffers[turn]
        if self._copied[turn] is not None:
            self._copied[turn].synchronize()
        if buffer is None or buffer.numel() < piece.size or buffer.dtype != kind:
            buffer = self._buffers[turn] = torch.empty(piece.size, dtype=kind, pin_memory=True)
        pinned = buffer[: piece.size].view(piece.shape)
        pinned.numpy()[...] = piece
        with torch.cuda.stream(self._stream):
            tensor = pinned.to(self.device.name, non_blocking=True)
            event = torch.cuda.Event()
            event.record(self._stream)
        self._copied[turn] = event
        return tensor, event

    def received(self, sent: tuple[Any, Any]) -> Any:
        """The tensor, for work on the current stream from now on."""
        tensor, event = sent
        current = self.torch.cuda.current_stream(self.device.name)
        current.wait_event(event)
        tensor.record_stream(current)  # whose memory belongs to the other stream
        return tensor
