"""Protobuf on the wire and in the log: the generated code, and its mapping to the records of gosched.core."""
