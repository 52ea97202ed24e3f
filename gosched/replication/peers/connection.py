"""A non-blocking stream of length-prefixed frames in PySyncObj's poller: to a peer (TLS or not), or to the front.

Invariant: it never blocks the tick, and everything it buffers is bounded; beyond a bound it closes. It handles the
errors of its own socket alone: what `opened`, `frame` or `closed` raises goes on to the tick.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable
from typing import Any

from pysyncobj.poller import POLL_EVENT_TYPE

from gosched.wire.certificates import names_of
from gosched.wire.role_rules import RoleReader
from gosched.wire.roles import BadCertificate, CertificateHolder
from gosched.wire.serials import serial_of

MAX_FRAME_BYTES = 8 * 1024 * 1024
MAX_UNSENT_BYTES = 256 * 1024 * 1024

_LENGTH = struct.Struct(">I")
_RTT_AT = 68  # in Linux's struct tcp_info: tcpi_rtt, in microseconds
_READ_BYTES = 256 * 1024
_MAX_READS = 16  # per wake-up, so that one busy peer does not starve the others
_READ, _WRITE, _ERROR = POLL_EVENT_TYPE.READ, POLL_EVENT_TYPE.WRITE, POLL_EVENT_TYPE.ERROR


class Connection:
    """A stream of frames.

    It calls `opened` once (after the TLS handshake), `frame` for each frame, and `closed` once with the reason.
    """

    def __init__(
        self,
        poller: Any,
        sock: socket.socket,
        *,
        opened: Callable[[Connection], None],
        frame: Callable[[Connection, bytes], None],
        closed: Callable[[Connection, str], None],
        tls: ssl.SSLContext | None = None,
        dialled: bool = False,
        max_unsent_bytes: int = MAX_UNSENT_BYTES,
    ) -> None:
        sock.setblocking(False)
        self._poller = poller
        self._on_opened, self._on_frame, self._on_closed = opened, frame, closed
        self._connecting = dialled
        self._max_unsent = max_unsent_bytes
        self._tls = tls
        self._handshaking = tls is not None
        self._sock = sock
        self._fd = sock.fileno()
        if tls is not None and not dialled:
            self._sock = tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        self._received = bytearray()
        self._unsent: deque[memoryview] = deque()
        self.unsent_bytes = 0
        self.is_open = False
        self.is_closed = False
        self._mask = 0
        self._watch(_READ | _WRITE if dialled or self._handshaking else _READ)

    def begin(self) -> None:
        """Open a socket that is connected and speaks without TLS."""
        if not self._connecting and not self._handshaking:
            self._open()

    def send(self, data: bytes) -> bool:
        """Queue a frame; return False when the connection is, or had to be, closed."""
        if self.is_closed:
            return False
        if self.unsent_bytes + len(data) > self._max_unsent:
            self.close("the peer is too slow: unsent bytes beyond the bound")
            return False
        idle = not self._unsent
        self._unsent.append(memoryview(_LENGTH.pack(len(data)) + data))
        self.unsent_bytes += _LENGTH.size + len(data)
        if idle and self.is_open:
            self._write()
        return not self.is_closed

    def rest_of_frame(self) -> bytes:
        """Return what is left of a frame that is partly sent."""
        first = self._unsent[0] if self._unsent else memoryview(b"")
        return bytes(first) if first.nbytes < memoryview(first.obj).nbytes else b""

    def holder(self, roles: RoleReader) -> CertificateHolder:
        """Return what the peer's certificate says. Raises BadCertificate, also where it cannot be seen whether that is
        revoked."""
        if isinstance(self._sock, ssl.SSLSocket) and not self.is_closed and not self.certificate_serial():
            raise BadCertificate("the certificate cannot be read")
        return roles.holder(names_of(self._sock.getpeercert() if isinstance(self._sock, ssl.SSLSocket) else None))

    def certificate_serial(self) -> str:
        """Return the serial number of the peer's certificate; empty without TLS, and once it is closed."""
        if self.is_closed or not isinstance(self._sock, ssl.SSLSocket):
            return ""
        certificate = self._sock.getpeercert(binary_form=True)
        return serial_of(certificate) if certificate else ""

    def round_trip_s(self) -> float:
        """Return the round trip in seconds as the kernel measures it, whatever the peer is busy with."""
        info = self._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RTT_AT + 4)
        microseconds: int = struct.unpack_from("=I", info, _RTT_AT)[0]
        return microseconds / 1e6

    def close(self, reason: str) -> None:
        if self.is_closed:
            return
        self.is_closed, self.is_open = True, False
        self._poller.unsubscribe(self._fd)
        self._sock.close()
        self._unsent.clear()
        self.unsent_bytes = 0
        self._on_closed(self, reason)

    def _on_event(self, _fd: int, event: int) -> None:
        # The poller may still hold events of a round in which this connection was closed.
        if self.is_closed:
            return
        if self._connecting and not self._finish_connect():
            return
        if self._handshaking and not self._handshake():
            return
        if event & (_READ | _ERROR):
            self._read()
        if event & _WRITE and not self.is_closed:
            self._write()

    def _finish_connect(self) -> bool:
        try:
            if error := self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(error, "connect failed")
            if self._tls is not None:  # only a connected socket can be wrapped; members check each other's names
                self._sock = self._tls.wrap_socket(self._sock, do_handshake_on_connect=False)
        except OSError as error:  # ssl.SSLError is one
            self.close(str(error))
            return False
        self._connecting = False
        if self._tls is None:
            self._open()
        return not self.is_closed

    def _handshake(self) -> bool:
        assert isinstance(self._sock, ssl.SSLSocket)
        try:
            self._sock.do_handshake()
        except ssl.SSLWantReadError:
            self._watch(_READ)
            return False
        except ssl.SSLWantWriteError:
            self._watch(_READ | _WRITE)
            return False
        except OSError as error:
            self.close(str(error))
            return False
        self._handshaking = False
        self._open()
        return not self.is_closed

    def _open(self) -> None:
        self.is_open = True
        self._watch(_READ)
        self._on_opened(self)
        if not self.is_closed:
            self._write()

    def _read(self) -> None:
        for _ in range(_MAX_READS):
            if not self._receive(_READ_BYTES):
                return
        while isinstance(self._sock, ssl.SSLSocket) and self._sock.pending():  # poll does not see these
            if not self._receive(self._sock.pending()):
                return

    def _receive(self, size: int) -> bool:
        """Read once; return whether there may be more."""
        try:
            data = self._sock.recv(size)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except OSError as error:
            self.close(str(error))
            return False
        if not data:
            self.close("the peer closed the connection")
            return False
        self._received += data
        self._take_frames()
        # Without TLS less than was asked for is all there was; a TLS record is less, too.
        return not self.is_closed and (len(data) == size or self._tls is not None)

    def _take_frames(self) -> None:
        offset, size = 0, len(self._received)
        while size - offset >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._received, offset)
            if length > MAX_FRAME_BYTES:
                self.close(f"a frame of {length} bytes is too long")
                return
            end = offset + _LENGTH.size + length
            if end > size:
                break
            frame = bytes(memoryview(self._received)[offset + _LENGTH.size : end])
            offset = end
            self._on_frame(self, frame)
            if self.is_closed:
                return
        if offset:
            del self._received[:offset]

    def _write(self) -> None:
        try:
            while self._unsent:
                first = self._unsent[0]
                sent = self._sock.send(first)
                self.unsent_bytes -= sent
                if sent == len(first):
                    self._unsent.popleft()
                else:
                    self._unsent[0] = first[sent:]
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            self._watch(_READ | _WRITE)
            return
        except OSError as error:
            self.close(str(error))
            return
        self._watch(_READ)

    def _watch(self, mask: int) -> None:
        if mask != self._mask:
            self._mask = mask
            self._poller.subscribe(self._fd, self._on_event, mask | _ERROR)
