"""Pulsar's binary protocol without any I/O: frames, commands, payloads and batches as bytes and back.

`codes` names the numbers, `topic_name` splits the names of topics, and `message_ids` reads positions.
`frames` cuts a stream of bytes into frames, `messages` builds the protocol's messages, and `hot` writes those
that a broker sends for every message. `command_ack` reads acknowledgments without them. `payload` splits what
follows a command, and `batches` splits an entry into its messages. What builds or reads messages needs the
library `protobuf` (the extra `devbroker`); importing a module of this package does not import it.
"""
