"""A connection that asyncio reads: for TLS, and where the compiled receiver cannot be had."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from harness.loadgen.framing import EMPTY_LINE, MOST_RESPONSE_BYTES, PackedReads, pack_reads
from harness.loadgen.wire import Connection

# One read brings 256 KiB at most, so a response of fewer reads cannot be beyond the bound.
_FEWEST_READS_OF_ENDLESS = MOST_RESPONSE_BYTES // (256 * 1024)


class ProtocolConnection(Connection, asyncio.Protocol):
    """Stamps each read as the event loop hands it over."""

    def __init__(
        self,
        now_ns: Callable[[], int],
        on_end: Callable[[Connection], None],
        on_idle_lost: Callable[[Connection], None],
    ) -> None:
        super().__init__(now_ns, on_end, on_idle_lost)
        self._transport: asyncio.Transport | None = None
        self._stamps: list[int] = []
        self._reads: list[bytes] = []
        self._seen_reads = 0
        self._counted_reads = 0
        self._bytes = 0
        self._is_chunked = False
        self._forget()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; nothing is sent before `begin`."""
        self._transport = transport  # type: ignore[assignment]
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        """Stamp the read before anything else, keep it, and see whether it can be the last."""
        self._add_stamp(self._now_ns())
        self._add_read(data)
        # A read of less than an empty line may be the end of one that began in the read before.
        if self._is_chunked and not data.endswith(EMPTY_LINE) and len(data) > 3:
            if len(self._reads) >= _FEWEST_READS_OF_ENDLESS:
                self._refuse_endless()
            return
        self._refuse_endless()
        if self.is_open:
            self._advance()

    def connection_lost(self, exc: Exception | None) -> None:
        """The other side has closed, or the socket is broken."""
        self._lose(exc)

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()
        self.is_open = False

    @property
    def reads_so_far(self) -> int:
        """Reads of the exchange in progress, or of the one that has just ended."""
        return len(self._reads)

    def _refuse_endless(self) -> None:
        self._bytes += sum(map(len, self._reads[self._counted_reads :]))
        self._counted_reads = len(self._reads)
        if self._bytes >= MOST_RESPONSE_BYTES:
            self.refuse_too_large()

    def _forget(self) -> None:
        self._stamps = []
        self._reads = []
        self._add_stamp = self._stamps.append
        self._add_read = self._reads.append
        self._is_chunked = False
        self._seen_reads = 0
        self._counted_reads = 0
        self._bytes = 0

    def _write(self, payload: bytes) -> None:
        if self._transport is not None:
            self._transport.write(payload)

    def _unseen(self, seen: int) -> bytes:  # noqa: ARG002 - reads are counted here, not bytes
        unseen = self._reads[self._seen_reads :]
        self._seen_reads = len(self._reads)
        return unseen[0] if len(unseen) == 1 else b"".join(unseen)

    def _note_chunked(self) -> None:
        self._is_chunked = True

    def _packed(self) -> PackedReads:
        return pack_reads(self._stamps, self._reads)
