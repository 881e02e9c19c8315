//! Hostile bytes: the codec returns a state or a typed error, and its memory is bounded by the input and the result.
//!
//! A separate test binary, because it counts every allocation. The bound is that of `docs/formats.md`: at no time
//! more than twice the input and its decompressed bytes, plus the result, plus 64 KB.

mod counting;

use ackwell_core::position_info::RESULT_BYTES_MAX;
use ackwell_core::{
    CommandAck, Compression, Error, Form, ManagedCursorInfo, Position, PositionInfo,
};
use counting::{HELD, PEAK};

/// Runs `decode` and checks the bound; `decompressed` is the announced size of the decompressed bytes.
fn bounded<T>(
    input: usize,
    decompressed: usize,
    decode: impl FnOnce() -> ackwell_core::Result<T>,
) -> Option<T> {
    let before = HELD.get();
    PEAK.set(before);
    let result = decode();
    let (peak, kept) = (PEAK.get() - before, HELD.get() - before);
    let most = 2 * (input + decompressed) as isize + kept + (64 << 10);
    assert!(peak <= most, "{peak} bytes at most, {most} allowed, for {input} bytes of input");
    match result {
        Ok(value) => Some(value),
        Err(Error::Corrupt { .. } | Error::Limit(_)) => None,
        Err(error) => panic!("an error of another kind: {error:?}"),
    }
}

fn decode(bytes: &[u8], decompressed: usize) -> Option<PositionInfo> {
    let (info, _) =
        bounded(bytes.len(), decompressed, || PositionInfo::decode(bytes, RESULT_BYTES_MAX))?;
    info.validate().unwrap();
    Some(info)
}

/// A state with every part; `acks` acknowledged entries in two ledgers.
fn state(acks: i64) -> PositionInfo {
    let mut info = PositionInfo::new(Position::new(3, 5));
    let mut random = 1u64;
    for index in 0..acks {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let entry_id = (random >> 40) as i64 % (8 * acks);
        info.individually_deleted.add(3 + index % 2, 10 + entry_id).unwrap();
    }
    info.batch_deleted.insert(Position::new(3, 6), &[0b1010, -1]);
    info.batch_deleted.insert(Position::new(4, 7), &[i64::MIN]);
    info.properties.insert("property".to_owned(), -7);
    info.idle_since = Some(1_700_000_000_000);
    info.set_unknown_fields(&[0xf2, 0x01, 3, b'a', b'b', b'c']).unwrap();
    info
}

/// A state of about 4 KB in each form, and its decompressed size.
fn four_kilobytes(form: Form) -> Vec<u8> {
    let mut acks = 16;
    loop {
        let bytes = state(acks).encode(form).unwrap();
        if bytes.len() >= 4096 {
            return bytes;
        }
        acks += acks / 16 + 1;
    }
}

/// The decompressed size that a compact entry announces.
fn decompressed(bytes: &[u8]) -> usize {
    let mut size = 0;
    if bytes[0] == 0xac && bytes[2] & 1 == 1 {
        for (index, byte) in bytes[7..].iter().take(5).enumerate() {
            size |= usize::from(byte & 0x7f) << (7 * index);
            if byte < &0x80 {
                break;
            }
        }
    }
    size
}

/// Updates the checksum of a compact entry.
fn reseal(bytes: &mut [u8]) {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&bytes[..3]);
    crc.update(&bytes[7..]);
    let checksum = crc.finalize();
    bytes[3..7].copy_from_slice(&checksum.to_le_bytes());
}

#[test]
fn every_flipped_bit_of_a_state_is_found_or_another_state() {
    for form in Form::ALL {
        let mut bytes = four_kilobytes(form);
        let (mut states, mut refused) = (0, 0);
        for bit in 0..8 * bytes.len() {
            bytes[bit / 8] ^= 1 << (bit % 8);
            match decode(&bytes, decompressed(&bytes)) {
                Some(_) => states += 1,
                None => refused += 1,
            }
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        println!("{form}: {states} other states, {refused} refused");
        assert!(refused > 100);
        assert_eq!(form == Form::Compact, states == 0, "only a checksum finds every flip");
    }
}

#[test]
fn every_flipped_bit_of_compact_behind_a_right_checksum_is_bounded() {
    let mut bytes = four_kilobytes(Form::Compact);
    for bit in 8 * 7..8 * bytes.len() {
        bytes[bit / 8] ^= 1 << (bit % 8);
        reseal(&mut bytes);
        // A flip in the size of the body announces more bytes than exist; the bound applies to the existing bytes.
        decode(&bytes, decompressed(&bytes).min(1 << 16));
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

/// The varint that begins at index `at`, if there is one.
fn varint(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let mut value = 0;
    for (index, &byte) in bytes[at..].iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f).checked_shl(7 * index as u32)?;
        if byte < 0x80 {
            return Some((value, index + 1));
        }
    }
    None
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[test]
fn every_number_and_length_replaced_is_refused_or_another_state() {
    for form in Form::ALL {
        let bytes = state(24).encode(form).unwrap();
        let first = if form == Form::Compact { 7 } else { 0 };
        let mut tried = 0;
        for at in first..bytes.len() {
            let Some((value, length)) = varint(&bytes, at) else { continue };
            let next = [value.wrapping_add(1), value.wrapping_sub(1)];
            for lie in [0, 1, u64::MAX, 1 << 31, 1 << 63, (1 << 31) - 1].into_iter().chain(next) {
                let mut lying = bytes[..at].to_vec();
                put_varint(&mut lying, lie);
                lying.extend_from_slice(&bytes[at + length..]);
                if form == Form::Compact {
                    reseal(&mut lying);
                }
                decode(&lying, 0);
                tried += 1;
            }
        }
        assert!(tried > 500);
    }
}

#[test]
fn a_bomb_is_refused_by_its_size_and_a_lie_by_what_is_there() {
    const SIZE: usize = 8 << 20;
    for compression in Compression::ALL {
        let bomb = compression.compress(&vec![0; SIZE]).unwrap();
        let refused = bounded(bomb.len(), 0, || compression.decompress(&bomb, SIZE, SIZE - 1));
        assert!(refused.is_none());
        let whole = bounded(bomb.len(), SIZE, || compression.decompress(&bomb, SIZE, SIZE));
        assert_eq!(Some(SIZE), whole.map(|bytes| bytes.len()));
        let little = compression.compress(b"little").unwrap();
        for lie in [0, 1, 5, 7, 1 << 20, SIZE, RESULT_BYTES_MAX] {
            let refused =
                bounded(little.len(), 6, || compression.decompress(&little, lie, RESULT_BYTES_MAX));
            assert!(refused.is_none(), "{compression} with {lie} for 6");
            let refused =
                bounded(bomb.len(), lie, || compression.decompress(&bomb, lie, RESULT_BYTES_MAX));
            assert_eq!(lie == SIZE, refused.is_some(), "{compression} with {lie} for {SIZE}");
        }
    }
}

#[test]
fn a_compact_bomb_is_held_to_the_limit_on_its_result() {
    // Constant columns encode a billion runs in a few bytes; the result would not fit.
    let mut info = PositionInfo::new(Position::new(1, 0));
    info.individually_deleted.add_range(1, -1, i64::MAX).unwrap();
    let mut bytes = info.encode(Form::Compact).unwrap();
    assert!(decode(&bytes, 0).is_some());
    for byte in 7..bytes.len() {
        for value in 0..=255 {
            let kept = std::mem::replace(&mut bytes[byte], value);
            reseal(&mut bytes);
            bounded(bytes.len(), 0, || PositionInfo::decode(&bytes, 1 << 20));
            bytes[byte] = kept;
        }
    }
}

#[test]
fn far_entries_take_no_memory_of_their_distance() {
    let mut info = PositionInfo::new(Position::new(1, 0));
    info.individually_deleted.add(1, 0).unwrap();
    info.individually_deleted.add(1, 1 << 40).unwrap();
    for form in [Form::PulsarRanges, Form::Compact] {
        let bytes = info.encode(form).unwrap();
        assert!(bytes.len() < 200);
        assert_eq!(Some(&info), decode(&bytes, 0).as_ref());
    }
    assert!(matches!(info.encode(Form::PulsarLongArray), Err(Error::Limit(_))));
}

#[test]
fn groups_inside_groups_are_refused_and_no_stack_is_used() {
    let mut bytes = vec![0x08, 1, 0x10, 2];
    bytes.extend(std::iter::repeat_n(0x73, 100_000));
    assert!(decode(&bytes, 0).is_none());
    let mut whole = vec![0x08, 1, 0x10, 2];
    whole.extend([0x73; 100]);
    whole.extend([0x74; 100]);
    assert!(decode(&whole, 0).is_some());
}

#[test]
fn small_limits_refuse_instead_of_allocating() {
    for form in Form::ALL {
        let bytes = state(60_000).encode(form).unwrap();
        let decompressed = decompressed(&bytes);
        assert!(decode(&bytes, decompressed).is_some());
        let refused = bounded(bytes.len(), decompressed, || PositionInfo::decode(&bytes, 1000));
        assert!(refused.is_none(), "{form}");
    }
}

#[test]
fn many_ledgers_are_refused_before_they_take_their_memory() {
    let mut info = PositionInfo::new(Position::new(1, 0));
    for ledger_id in 1..60_000 {
        info.individually_deleted.add(ledger_id, 5).unwrap();
    }
    for form in Form::ALL {
        let bytes = info.encode(form).unwrap();
        let refused =
            bounded(bytes.len(), decompressed(&bytes), || PositionInfo::decode(&bytes, 100_000));
        assert!(refused.is_none(), "{form}");
    }
}

#[test]
fn a_cursor_record_is_bounded_too() {
    let mut record = ManagedCursorInfo::new(7);
    let mut info = state(300);
    info.idle_since = None;
    info.set_unknown_fields(&[]).unwrap();
    record.set_position_info(info).unwrap();
    for compression in std::iter::once(None).chain(Compression::ALL.map(Some)) {
        let mut bytes = record.encode(compression).unwrap();
        let plain = record.encode(None).unwrap().len();
        for bit in 0..8 * bytes.len().min(600) {
            bytes[bit / 8] ^= 1 << (bit % 8);
            // With a flip in the announced size, the output grows up to the existing bytes.
            bounded(bytes.len(), 2 * plain, || ManagedCursorInfo::decode(&bytes, RESULT_BYTES_MAX));
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn a_command_takes_memory_in_proportion_to_its_bytes() {
    // A plain id, one with an ack set of packed one-byte words, one with a partition, one with a first chunk.
    let ids: [&[u8]; 4] = [
        &[8, 1, 16, 2],
        &[8, 1, 16, 2, 42, 3, 1, 1, 1],
        &[8, 1, 16, 2, 24, 5],
        &[8, 1, 16, 2, 58, 4, 8, 1, 16, 1],
    ];
    for id in ids {
        let mut bytes = vec![8, 1, 16, 0];
        for _ in 0..20_000 {
            bytes.extend([26, id.len() as u8]);
            bytes.extend(id);
        }
        let before = HELD.get();
        PEAK.set(before);
        let command = CommandAck::decode(&bytes).expect("a command");
        let peak = PEAK.get() - before;
        assert_eq!(20_000, command.ledger_ids.len());
        assert!(peak <= 40 * bytes.len() as isize, "{peak} bytes for {} of input", bytes.len());
    }
}
