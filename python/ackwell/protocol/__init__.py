"""Pulsar's binary protocol without any I/O: frames, commands, payloads and batches as bytes and back.

`frames` cuts a stream of bytes into frames, `messages` builds the protocol's messages, `codes` names their
numbers, `payload` splits what follows a command, and `batches` splits an entry into its messages. It needs
the library `protobuf` (the extra `devbroker`); importing this package does not import it.
"""
