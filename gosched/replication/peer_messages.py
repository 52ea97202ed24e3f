"""PySyncObj's messages (dicts) as protobuf frames, and back. What does not fit is an error, never a guess."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError

from gosched.wire.v1 import log_pb2, raft_pb2

Message = dict[str, Any]

# The first byte of a command; other kinds of the library are not used. MEMBERS is one that it does not know: a batch
# like a regular one, whose only command names the members.
REGULAR, NO_OP, MEMBERS = b"\x00", b"\x01", b"\x10"
BATCHES = (REGULAR, MEMBERS)


class BadFrame(Exception):
    """The peer does not speak this protocol; the connection must end."""


def encode(message: Message) -> bytes:
    frame = raft_pb2.PeerFrame()
    match message["type"]:
        case "request_vote":
            frame.request_vote.term = message["term"]
            frame.request_vote.last_index = message["last_log_index"]
            frame.request_vote.last_term = message["last_log_term"]
        case "response_vote":
            frame.vote.term = message["term"]
        case "next_node_idx":
            frame.append_reply.term = message["term"]
            frame.append_reply.next_index = message["next_node_idx"]
            frame.append_reply.reset = message["reset"]
            frame.append_reply.success = message["success"]
            frame.append_reply.joining = message["joining"]
        case "timeout_now":
            frame.timeout_now.term = message["term"]
        case "pre_vote":
            frame.pre_vote.term = message["term"]
            frame.pre_vote.last_index = message["last_log_index"]
            frame.pre_vote.last_term = message["last_log_term"]
        case "pre_vote_reply":
            frame.pre_vote_reply.term = message["term"]
            frame.pre_vote_reply.own_term = message["own_term"]
            frame.pre_vote_reply.granted = message["granted"]
        case "append_entries":
            _encode_append(message, frame.append_entries)
        case other:
            raise ValueError(f"{other} has no place in the protocol")
    return frame.SerializeToString()


def decode(data: bytes) -> Message | raft_pb2.PeerHello:
    try:
        frame = raft_pb2.PeerFrame.FromString(data)
    except DecodeError as error:
        raise BadFrame(str(error)) from error
    match frame.WhichOneof("message"):
        case "hello":
            return frame.hello
        case "request_vote" | "pre_vote" as kind:
            vote = frame.request_vote if kind == "request_vote" else frame.pre_vote
            return {
                "type": kind,
                "term": vote.term,
                "last_log_index": vote.last_index,
                "last_log_term": vote.last_term,
            }
        case "vote":
            return {"type": "response_vote", "term": frame.vote.term}
        case "append_reply":
            reply = frame.append_reply
            return {
                "type": "next_node_idx",
                "term": reply.term,
                "next_node_idx": reply.next_index,
                "reset": reply.reset,
                "success": reply.success,
                "joining": reply.joining,
            }
        case "timeout_now":
            return {"type": "timeout_now", "term": frame.timeout_now.term}
        case "pre_vote_reply":
            answer = frame.pre_vote_reply
            return {
                "type": "pre_vote_reply",
                "term": answer.term,
                "own_term": answer.own_term,
                "granted": answer.granted,
            }
        case "append_entries":
            return _decode_append(frame.append_entries)
        case _:
            raise BadFrame("unknown message")


def _encode_append(message: Message, append: raft_pb2.AppendEntries) -> None:
    append.term = message["term"]
    append.commit_index = message["commit_index"]
    if "prevLogIdx" in message:
        append.entries.SetInParent()
        if message["prevLogIdx"] is not None:
            append.entries.previous_index = message["prevLogIdx"]
            append.entries.previous_term = message["prevLogTerm"]
        for command, index, term in message["entries"]:
            append.entries.entries.add(command=command, index=index, term=term)
        return
    append.snapshot.SetInParent()
    if message["serialized"]:
        append.snapshot.data, append.snapshot.first, append.snapshot.last = message["serialized"]


def _decode_append(append: raft_pb2.AppendEntries) -> Message:
    message: Message = {"type": "append_entries", "term": append.term, "commit_index": append.commit_index}
    match append.WhichOneof("body"):
        case "snapshot":
            chunk = append.snapshot
            message["serialized"] = (chunk.data, chunk.first, chunk.last) if chunk.HasField("data") else None
        case "entries":
            body = append.entries
            known = body.HasField("previous_index")
            message["prevLogIdx"] = body.previous_index if known else None
            message["prevLogTerm"] = body.previous_term if known else None
            message["entries"] = [_checked(entry) for entry in body.entries]
            if known:
                _check_order(message)
        case _:
            raise BadFrame("append without a body")
    return message


def _checked(entry: log_pb2.LogEntry) -> tuple[bytes, int, int]:
    if entry.command[:1] not in (*BATCHES, NO_OP):
        raise BadFrame("entry of a kind that is not used")
    return entry.command, entry.index, entry.term


def _check_order(message: Message) -> None:
    expected = message["prevLogIdx"]
    for _, index, _ in message["entries"]:
        expected += 1
        if index != expected:
            raise BadFrame("entries out of order")
