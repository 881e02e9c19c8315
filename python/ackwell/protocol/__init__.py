"""Pulsar's binary protocol without I/O: encode and decode frames, commands, payloads and batches.

`constants` has the enumerations and limits. `topic_name` parses topic names, and `message_ids` converts
message ids to positions and back. `frames` splits a stream of bytes into frames, and `messages` builds the
classes of the protocol's messages. `fast_frames` encodes the frames that a broker sends for every message.
`command_ack` decodes acknowledgments without protobuf objects. `payload` splits the bytes after a command
into metadata and body, and `batches` splits the body of a batch into its messages. To build or parse
messages, install the library `protobuf` (the extra `devbroker`). Importing a module of this package does not
import `protobuf`.
"""
