//! Payload can be checked in pieces of any size, and every kind of damage has its own verdict.

use loadstone_loadgen::payload::{
    Held, ObjectId, PAGE_BYTES, PayloadSpec, Verdict, Verifier, check_blocks, fill,
};

const LENGTHS: [u64; 15] =
    [0, 1, 15, 16, 17, 63, 64, 65, 4095, 4096, 4097, 4111, 4112, 8192, 100_003];

fn spec() -> PayloadSpec {
    PayloadSpec::new([7; 16], 42, 0.0, 0.0)
}

/// A file that ends within a page.
static CONTENT: [u8; 10_007] = {
    let mut content = [0; 10_007];
    let mut at = 0;
    while at < content.len() {
        content[at] = (at / 7 % 251) as u8;
        at += 1;
    }
    content
};

fn of_file() -> PayloadSpec {
    spec().with_content(Some(&CONTENT))
}

fn made(spec: &PayloadSpec, object: &ObjectId) -> Vec<u8> {
    let mut bytes = vec![0xaa; usize::try_from(object.length).expect("small")];
    fill(spec, object, 0, &mut bytes);
    bytes
}

fn verdict(spec: &PayloadSpec, object: &ObjectId, bytes: &[u8]) -> Verdict {
    let mut verifier = Verifier::new(spec, object, 0);
    verifier.update(bytes);
    verifier.finish()
}

/// A pseudo-random sequence of numbers.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % bound
    }
}

#[test]
fn generated_payload_verifies_in_pieces_of_any_size() {
    let mut chance = Chance(1);
    let shares = [(0.0, 0.0), (0.5, 0.0), (1.0, 0.0), (0.0, 0.5), (0.3, 1.0)];
    let drawn = shares
        .map(|(compressible, duplicate)| PayloadSpec::new([7; 16], 42, compressible, duplicate));
    for spec in drawn.into_iter().chain([of_file()]) {
        for length in LENGTHS {
            let object = ObjectId { writer: 9, ..ObjectId::new(5, 3, length) };
            let bytes = made(&spec, &object);
            assert_eq!(verdict(&spec, &object, &bytes), Verdict::Ok, "{length} bytes at once");
            for _ in 0..20 {
                let mut verifier = Verifier::new(&spec, &ObjectId::new(5, 3, length), 0);
                let mut rest = &bytes[..];
                while !rest.is_empty() {
                    let bound = [3, 70, 5000, 20_000][chance.below(4)];
                    let (piece, left) = rest.split_at((1 + chance.below(bound)).min(rest.len()));
                    verifier.update(piece);
                    rest = left;
                }
                assert_eq!(verifier.finish(), Verdict::Ok, "{length} bytes in pieces");
                assert_eq!(verifier.checked_bytes(), length);
            }
        }
    }
}

#[test]
fn pages_contain_a_section_of_the_file_and_damage_is_detected() {
    let spec = of_file();
    let object = ObjectId::new(5, 3, 50_000);
    let bytes = made(&spec, &object);
    let held: Vec<u8> = bytes.chunks(PAGE_BYTES).flat_map(|page| page[64..].to_vec()).collect();
    let begin = (0..CONTENT.len()).find(|begin| {
        held.iter().enumerate().all(|(at, byte)| *byte == CONTENT[(begin + at) % CONTENT.len()])
    });
    let other = made(&spec, &ObjectId::new(6, 3, 50_000));
    assert!(begin.is_some() && held[..100] != other[64..164], "each begins somewhere else");
    for at in [64, 4096 + 70, 49_999] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert_eq!(verdict(&spec, &object, &damaged), Verdict::Corrupt, "byte {at}");
    }
}

#[test]
fn any_range_equals_that_of_the_whole_and_verifies() {
    let mut chance = Chance(2);
    let specs = [PayloadSpec::new([7; 16], 42, 0.2, 0.2), of_file()];
    let lengths = LENGTHS.into_iter().filter(|length| *length > 0);
    for (length, spec) in lengths.flat_map(|length| specs.map(|spec| (length, spec))) {
        let object = ObjectId { writer: 77, ..ObjectId::new(5, 3, length) };
        let bytes = made(&spec, &object);
        for _ in 0..200 {
            let start = chance.below(bytes.len());
            let end = start + 1 + chance.below(bytes.len() - start);
            let mut part = vec![0; end - start];
            fill(&spec, &object, start as u64, &mut part);
            assert_eq!(part, bytes[start..end], "{start}..{end} of {length}");
            let reader = ObjectId::new(5, 3, length);
            let mut verifier = Verifier::for_range(&spec, &reader, start as u64..end as u64);
            verifier.update(&part);
            assert_eq!(verifier.finish(), Verdict::Ok, "{start}..{end} of {length}");
        }
    }
}

#[test]
fn every_flipped_bit_is_detected() {
    for length in [1, 15, 16, 40, 63, 64, 100, 4096, 4100, 9000] {
        let object = ObjectId::new(5, 3, length);
        let bytes = made(&spec(), &object);
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1 << (place % 8);
            let verdict = verdict(&spec(), &object, &damaged);
            assert_eq!(verdict, Verdict::Corrupt, "byte {place} of {length}");
        }
    }
}

#[test]
fn a_flipped_bit_is_detected_in_parts_of_pages() {
    let object = ObjectId::new(5, 3, 10_000);
    let bytes = made(&spec(), &object);
    // The header of page 1 is truncated inside the writer, so the writer and the CRC are unknown.
    let range = 4096 + 38..9000_usize;
    for place in range.clone() {
        let mut damaged = bytes.clone();
        damaged[place] ^= 0x10;
        let span = range.start as u64..range.end as u64;
        let mut verifier = Verifier::for_range(&spec(), &object, span);
        verifier.update(&damaged[range.clone()]);
        let is_passed_over = place < 4136 || (4156..4160).contains(&place);
        let expected = if is_passed_over { Verdict::Ok } else { Verdict::Corrupt };
        assert_eq!(verifier.finish(), expected, "byte {place}");
    }
}

#[test]
fn an_early_end_is_truncated_and_a_late_one_overlong() {
    for length in [16, 64, 5000, 8192_u64] {
        let object = ObjectId::new(5, 3, length);
        let mut bytes = made(&spec(), &object);
        for end in 0..bytes.len() {
            assert_eq!(verdict(&spec(), &object, &bytes[..end]), Verdict::Truncated, "{end}");
        }
        bytes.push(0);
        assert_eq!(verdict(&spec(), &object, &bytes), Verdict::Overlong);
    }
}

#[test]
fn an_early_end_does_not_hide_damage_before_it() {
    let object = ObjectId::new(5, 3, 5000);
    let mut bytes = made(&spec(), &object);
    bytes[4200] ^= 1;
    assert_eq!(verdict(&spec(), &object, &bytes[..4300]), Verdict::Corrupt);
}

#[test]
fn another_objects_bytes_are_misdirected() {
    for length in [16, 63, 64, 4096, 9000] {
        let bytes = made(&spec(), &ObjectId::new(6, 3, length));
        assert_eq!(verdict(&spec(), &ObjectId::new(5, 3, length), &bytes), Verdict::Misdirected);
    }
}

#[test]
fn swapped_pages_are_misdirected() {
    let object = ObjectId::new(5, 3, 3 * PAGE_BYTES as u64);
    let mut bytes = made(&spec(), &object);
    let (first, second) = bytes.split_at_mut(PAGE_BYTES);
    first.swap_with_slice(&mut second[..PAGE_BYTES]);
    let mut verifier = Verifier::new(&spec(), &object, 0);
    verifier.update(&bytes);
    assert_eq!(verifier.finish(), Verdict::Misdirected);
    let evidence = verifier.evidence().expect("something was wrong").to_string();
    assert!(evidence.starts_with("misdirected at offset 0: "), "{evidence}");
    assert!(evidence.contains("page 1 "), "{evidence}");
}

#[test]
fn another_runs_bytes_are_foreign() {
    let other = PayloadSpec::new([8; 16], 42, 0.0, 0.0);
    let object = ObjectId::new(5, 3, 9000);
    let bytes = made(&other, &object);
    assert_eq!(verdict(&spec(), &object, &bytes), Verdict::Foreign);
    assert_eq!(verdict(&spec(), &object, &bytes[..100]), Verdict::Foreign, "even a part of a page");
}

#[test]
fn old_versions_are_stale_unless_allowed_and_unwritten_ones_are_phantoms() {
    for length in [10, 16, 64, 100, 4096, 9000] {
        let bytes = made(&spec(), &ObjectId::new(5, 2, length));
        let newer = ObjectId::new(5, 3, length);
        let expected = if length < 16 { Verdict::Corrupt } else { Verdict::Stale };
        assert_eq!(verdict(&spec(), &newer, &bytes), expected, "{length}");
        let mut tolerant = Verifier::new(&spec(), &newer, 0).allow_since(1);
        tolerant.update(&bytes);
        assert_eq!(tolerant.finish(), Verdict::Ok, "{length}");
        if length >= 16 {
            let older = ObjectId::new(5, 1, length);
            assert_eq!(verdict(&spec(), &older, &bytes), Verdict::Phantom, "{length}");
        }
    }
}

#[test]
fn pages_of_two_versions_are_torn_even_when_both_are_allowed() {
    let newer = ObjectId::new(5, 3, 9000);
    let mut bytes = made(&spec(), &newer);
    let old = made(&spec(), &ObjectId::new(5, 2, 9000));
    bytes[8192..].copy_from_slice(&old[8192..]);
    let mut verifier = Verifier::new(&spec(), &newer, 0).allow_since(1);
    verifier.update(&bytes);
    assert_eq!(verifier.finish(), Verdict::Torn);
}

#[test]
fn parts_that_are_equal_in_all_versions_are_not_torn() {
    let spec = PayloadSpec::new([7; 16], 42, 0.9, 0.0);
    let old = made(&spec, &ObjectId::new(5, 2, 12_288));
    let range = 3000..9000_usize;
    let expected = ObjectId::new(5, 3, 12_288);
    let mut verifier = Verifier::for_range(&spec, &expected, 3000..9000).allow_since(1);
    verifier.update(&old[range]);
    assert_eq!(verifier.finish(), Verdict::Ok, "the end of page 0 is zeros in every version");
}

#[test]
fn duplicates_have_the_requested_share_and_are_equal() {
    let spec = PayloadSpec::new([7; 16], 42, 0.0, 0.4);
    let mut pages = std::collections::HashMap::<Vec<u8>, u32>::new();
    for key_hash in 0..50 {
        let bytes = made(&spec, &ObjectId::new(key_hash, 1, 100 * PAGE_BYTES as u64));
        bytes.chunks(PAGE_BYTES).for_each(|page| *pages.entry(page.to_vec()).or_default() += 1);
    }
    let unique = pages.values().filter(|count| **count == 1).count();
    assert!((2900..3100).contains(&unique), "{unique} of 5000 pages are unique, asked for 3000");
    assert!(pages.len() - unique <= 64, "the others are few");
}

#[test]
fn a_buffer_with_the_requested_duplicates_is_not_filled_again() {
    let page = PAGE_BYTES as u64;
    let object = |key_hash| ObjectId::new(key_hash, key_hash, 300 * page + 100);
    for duplicate in [0.0, 0.5, 1.0] {
        let spec = PayloadSpec::new([7; 16], 42, 0.25, duplicate);
        let (mut held, mut buffer) = (Held::default(), vec![0xaa; 70 * PAGE_BYTES]);
        let mut unchanged = 0;
        let mut chance = Chance(3);
        for turn in 0..600 {
            let pages = 1 + chance.below(70) as u64;
            // Often a multiple of the set, sometimes not even of a page, sometimes at the end.
            let (offset, bytes) = match chance.below(8) {
                0 => (page * chance.below(200) as u64 + 7, 5000),
                1 => (300 * page - 2 * page, 2 * page + 100),
                2 => (page * chance.below(200) as u64, pages * page),
                _ => (64 * page * chance.below(3) as u64, pages * page),
            };
            let wanted = &mut buffer[..usize::try_from(bytes).expect("small")];
            // An unannounced change reveals whether the buffer was filled again.
            let before: [u8; 8] = wanted[70..78].try_into().expect("eight bytes");
            let mark = before.map(|byte| !byte);
            wanted[70..78].copy_from_slice(&mark);
            held.fill(&spec, &object(turn), offset, wanted);
            if wanted[70..78] == mark {
                unchanged += 1;
                wanted[70..78].copy_from_slice(&before);
            }
            let mut anew = vec![0; wanted.len()];
            fill(&spec, &object(turn), offset, &mut anew);
            assert!(wanted == anew, "turn {turn}: {bytes} bytes at {offset}");
            if chance.below(50) == 0 {
                held.forget();
                buffer.fill(0x55);
            }
        }
        assert!(
            if duplicate == 1.0 { unchanged > 60 } else { unchanged < 20 },
            "{unchanged} at {duplicate}"
        );
    }
}

#[test]
fn the_compressible_part_is_zero_and_has_the_requested_size() {
    let spec = PayloadSpec::new([7; 16], 42, 0.75, 0.0);
    let bytes = made(&spec, &ObjectId::new(5, 1, 8192));
    assert!(bytes[1024..4096].iter().chain(&bytes[5120..]).all(|byte| *byte == 0));
    let zeros = bytes[..1024].iter().filter(|byte| **byte == 0).count();
    assert!(zeros < 60, "{zeros} zeros in the random part");
}

fn blocks_verdict(object: &ObjectId, offset: usize, bytes: &[u8]) -> Verdict {
    check_blocks(&spec(), object, offset as u64, bytes)
        .map_or_else(|evidence| evidence.verdict(), |()| Verdict::Ok)
}

#[test]
fn adjacent_blocks_of_different_versions_are_valid() {
    let newest = ObjectId::new(5, 4, 100_000);
    let mut bytes = made(&spec(), &ObjectId::new(5, 1, 100_000));
    for (version, start, end) in [(2, 0, 4096), (3, 8192, 24_576), (4, 20_480 + 512, 20_480 + 1536)]
    {
        let newer = made(&spec(), &ObjectId::new(5, version, 100_000));
        bytes[start..end].copy_from_slice(&newer[start..end]);
    }
    assert_eq!(blocks_verdict(&newest, 0, &bytes), Verdict::Ok);
    for (start, end) in [(512, 1024), (20_480, 24_576), (20_992, 21_504), (99_328, 100_000)] {
        assert_eq!(blocks_verdict(&newest, start, &bytes[start..end]), Verdict::Ok, "{start}");
    }
    for place in (0..bytes.len()).step_by(97) {
        bytes[place] ^= 4;
        assert_eq!(blocks_verdict(&newest, 0, &bytes), Verdict::Corrupt, "byte {place}");
        bytes[place] ^= 4;
    }
}

#[test]
fn blocks_of_another_position_are_detected() {
    let object = ObjectId::new(5, 4, 100_000);
    let bytes = made(&spec(), &object);
    assert_eq!(blocks_verdict(&object, 4096, &bytes[8192..16_384]), Verdict::Misdirected);
    let older = ObjectId::new(5, 3, 100_000);
    assert_eq!(blocks_verdict(&older, 0, &bytes[..4096]), Verdict::Phantom);
    let other = PayloadSpec::new([8; 16], 42, 0.0, 0.0);
    assert_eq!(blocks_verdict(&object, 0, &made(&other, &object)), Verdict::Foreign);
    assert_eq!(blocks_verdict(&object, 0, &[0; 4096]), Verdict::Corrupt);
    assert_eq!(blocks_verdict(&object, 98_304, &bytes[98_304..99_328]), Verdict::Ok);
    assert_eq!(blocks_verdict(&object, 100_000, &[0; 1]), Verdict::Overlong);
}
