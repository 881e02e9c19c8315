"""Pulsar's binary protocol without I/O: encode and decode frames, commands, payloads and batches.

`constants` has the enumerations and limits, `topic_name` parses topic names, and `message_ids` converts
positions. `frames` splits a stream of bytes into frames, `messages` builds the protocol's messages, and
`fast_frames` writes the frames that a broker sends for every message. `command_ack` decodes acknowledgments
without protobuf objects. `payload` splits the bytes after a command, and `batches` splits an entry into its
messages. Building and parsing messages requires the library `protobuf` (the extra `devbroker`); importing a
module of this package does not import it.
"""
