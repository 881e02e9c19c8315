//! The causes of [`Error::Value`](super::Error::Value) and [`Error::Limit`](super::Error::Limit), with their messages.

use std::fmt;

/// Defines an enum. Each variant has fields and a message, which is a format string over these fields.
macro_rules! causes {
    ($(#[$meta:meta])* $name:ident {
        $($variant:ident $({ $($field:ident: $type:ty),* })? => $message:literal $(, $argument:expr)*;)*
    }) => {
        $(#[$meta])*
        #[expect(missing_docs, reason = "the message describes the fields")]
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name {
            $(#[doc = concat!("`", $message, "`")] $variant $({ $($field: $type),* })?,)*
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$variant $({ $($field),* })? => write!(f, $message $(, $argument)*),)*
                }
            }
        }
    };
}

causes! {
    /// An argument outside its documented domain.
    InvalidArgument {
        AckSetBounds => "an ack set outside its words";
        AckSetEnds { words: usize } => "the ends of ack sets rise from 0 to the number of words, {words}";
        Bit { bit: i64 } => "bit {bit}: bits are at least 0";
        BitRange { start: usize, end: usize } => "range {start}..{end} ends before it starts";
        BoundPosition { ledger_id: i64, entry_id: i64 } =>
            "bound {ledger_id}:{entry_id}: the ledger id is at least 0, the entry id at least -1";
        BrokerVersion { broker: String } => "broker {broker:?}: expected a version such as 4.2.4";
        BucketBits { bits: u32, max: u32 } => "bits are 0 to {max}, got {bits}";
        ColumnLengths => "columns of different lengths";
        DifferentLengths { lengths: Vec<usize> } => "columns of different lengths: {lengths:?}";
        EntryPosition { ledger_id: i64, entry_id: i64 } =>
            "position {ledger_id}:{entry_id}: ledger and entry ids are at least 0";
        EntryRange { ledger_id: i64, lower: i64, upper: i64 } =>
            "range ({ledger_id}:{lower}..{ledger_id}:{upper}]: the ledger id is at least 0, the lower bound at least \
             -1 and the upper bound at least the lower";
        ExtraFields =>
            "a ManagedCursorInfo holds no redelivery counts, idle time or unknown fields of a PositionInfo; leave \
             them out with replace";
        FormName { name: String, known: String } => "form {name:?}: expected one of {known}";
        KnownFields => "unknown_fields: expected whole fields with other numbers";
        Ledger { ledger_id: i64, entries: i64 } => "ledger {ledger_id} with {entries} entries: both are at least 0";
        Ledgers => "a negative ledger id or number of entries";
        NameBounds => "offsets outside their bytes";
        NameEncoding => "a name that is not UTF-8";
        RedeliveryCount { count: i64, ledger_id: i64, entry_id: i64 } =>
            "redelivery count {count} of {ledger_id}:{entry_id} is negative";
        Remaining { remaining: i64 } => "remaining {remaining}: expected 0 to 2147483647";
        RepeatedLedger { ledger_id: i64 } => "ledger {ledger_id} is named twice";
        SpanningRange { lower: (i64, i64), upper: (i64, i64) } =>
            "({}:{}..{}:{}] does not span ledgers", lower.0, lower.1, upper.0, upper.1;
        StickyKeyHash { sticky_key_hash: i64 } => "sticky-key hash {sticky_key_hash}: expected 32 signed bits";
        Tick { tick_ms: i64 } => "tick is at least 1 ms, got {tick_ms}";
        TickTime { tick_time_ms: i64 } => "tick time is at least 1 ms, got {tick_time_ms}";
        Unknown { what: &'static str } => "{what} that is not known";
        Unnumbered => "a topic, a subscription or a transaction that has no number";
    }
}

causes! {
    /// A limit that an operation would exceed.
    LimitReached {
        AckSetWords { max: usize, batch_size_max: i32 } =>
            "an ack set of more than {max} words; a batch holds at most {batch_size_max} messages";
        BatchSize { batch_size: i32, max: i32 } => "batch size {batch_size}; a batch holds at most {max} messages";
        Bit { bit: usize, limit: usize } => "bit {bit}: this set holds bits below {limit}";
        BareState { max_bytes: usize, form: &'static str } =>
            "the mark-delete position and the properties alone take more than {max_bytes} bytes as {form}";
        Compression { compression: &'static str, bytes: usize, error: String } =>
            "{compression} cannot compress {bytes} bytes: {error}";
        DecodedBytes { max_bytes: usize } =>
            "the decoded state would take more than {max_bytes} bytes; raise max_bytes to read it";
        DecompressedBytes { bytes: usize, max_bytes: usize } =>
            "{bytes} bytes after decompression are more than {max_bytes}; raise max_bytes to read them";
        JavaBitSet { ledger_id: i64, entry_id: i64 } =>
            "entry {ledger_id}:{entry_id} is past the 2^31 bits of a Java BitSet";
        LedgerEntries => "more than 2^63 - 1 entries in all ledgers";
        ManagedCursorInfoBytes => "a ManagedCursorInfo of more than 2 GiB";
        MessageBytes { form: &'static str, max_bytes: usize } =>
            "{form} would take more than the {max_bytes} bytes of a message";
        NameBytes => "more than 2 GiB of names";
        RestoredMessages { max: u64 } => "more than {max} messages in a saved index";
        SpanningRange { form: &'static str, lower: (i64, i64), upper: (i64, i64) } =>
            "{form} cannot hold the range ({}:{}..{}:{}] over a ledger's end", lower.0, lower.1, upper.0, upper.1;
    }
}
