//! Checks the footer of a Parquet file before the library reads it. The library reads nested
//! columns by recursion, and a short file can nest them deeper than any stack.
//!
//! Footers use the compact protocol of Thrift; its field IDs are those of `parquet.thrift`.

/// `FileMetaData.schema`: the columns and those nested in them, depth first.
const SCHEMA: u64 = 2;
/// `SchemaElement.num_children`.
const CHILDREN: u64 = 5;
const END: u8 = 0;
const LIST: u8 = 9;
const STRUCT: u8 = 12;
/// Maximum nesting of values other than columns.
const VALUES_DEPTH_MAX: u32 = 32;

/// Returns the nesting depth of the columns, 1 if none is nested; `None` if this is not a footer.
pub(crate) fn depth_of_columns(footer: &[u8]) -> Option<usize> {
    let mut footer = Compact(footer);
    let (mut deepest, mut id) = (0, 0);
    loop {
        let kind;
        (id, kind) = footer.field(id)?;
        match (id, kind) {
            (_, END) => return Some(deepest),
            // If there were several, the library would read each.
            (SCHEMA, LIST) => deepest = deepest.max(footer.depth_of_schema()?),
            _ => footer.skip(kind, VALUES_DEPTH_MAX)?,
        }
    }
}

struct Compact<'a>(&'a [u8]);

impl Compact<'_> {
    fn depth_of_schema(&mut self) -> Option<usize> {
        let (count, kind) = self.list()?;
        // Number of remaining children of each open group.
        let (mut open, mut deepest) = (Vec::new(), 0);
        for _ in 0..count {
            while open.last() == Some(&0) {
                open.pop();
            }
            if let Some(left) = open.last_mut() {
                *left -= 1;
            }
            if kind != STRUCT {
                return None;
            }
            match self.children()? {
                0 => (),
                children => open.push(children),
            }
            deepest = deepest.max(open.len());
        }
        Some(deepest)
    }

    fn children(&mut self) -> Option<u64> {
        let (mut children, mut id) = (0, 0);
        loop {
            let kind;
            (id, kind) = self.field(id)?;
            match (id, kind) {
                (_, END) => return Some(children),
                (CHILDREN, 4..=6) => {
                    let number = self.number()?;
                    // An odd number is negative, which the library might read as any other number.
                    children = if number % 2 == 0 { number / 2 } else { u64::MAX };
                }
                _ => self.skip(kind, VALUES_DEPTH_MAX)?,
            }
        }
    }

    /// Returns ID and kind of the next field; `last` is the ID of the previous one.
    fn field(&mut self, last: u64) -> Option<(u64, u8)> {
        let head = self.byte()?;
        let id = match (head & 15, head >> 4) {
            (END, _) => 0,
            (_, 0) => {
                let number = self.number()?;
                (number >> 1) ^ (number & 1).wrapping_neg()
            }
            (_, step) => last + u64::from(step),
        };
        // The library keeps only 16 bits of the ID.
        Some((id & 0xffff, head & 15))
    }

    fn list(&mut self) -> Option<(u64, u8)> {
        let head = self.byte()?;
        let count = if head >> 4 == 15 { self.number()? } else { u64::from(head >> 4) };
        Some((count, head & 15))
    }

    fn skip(&mut self, kind: u8, depth_max: u32) -> Option<()> {
        let deeper = depth_max.checked_sub(1)?;
        match kind {
            // In a field, the kind is the value.
            1 | 2 => Some(()),
            3 => self.pass(1),
            4..=6 => self.number().map(drop),
            7 => self.pass(8),
            8 => self.number().and_then(|length| self.pass(length)),
            LIST | 10 => {
                let (count, kind) = self.list()?;
                (0..count).try_for_each(|_| match kind {
                    1 | 2 => self.pass(1),
                    _ => self.skip(kind, deeper),
                })
            }
            STRUCT => loop {
                match self.field(0)? {
                    (_, END) => return Some(()),
                    (_, kind) => self.skip(kind, deeper)?,
                }
            },
            _ => None,
        }
    }

    /// Returns a number without decoding its zig-zag sign.
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Some(number);
            }
        }
        None
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn pass(&mut self, bytes: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(bytes).ok()?..)?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A schema of one column below this number of groups, between a version and a number of rows.
    fn footer(groups: u8) -> Vec<u8> {
        let group = [0x48, 1, b'g', 0x15, 2, 0];
        let leaf = [0x15, 12, 0x38, 1, b'k', 0];
        let mut bytes = vec![0x15, 2, 0x19, 0xfc, groups + 2];
        bytes.extend([0x48, 1, b's', 0x15, 2, 0]);
        bytes.extend(group.repeat(groups.into()));
        bytes.extend(leaf);
        bytes.extend([0x16, 0, 0]);
        bytes
    }

    #[test]
    fn nested_groups_are_counted_and_adjacent_ones_are_not() {
        assert_eq!(depth_of_columns(&footer(0)), Some(1));
        assert_eq!(depth_of_columns(&footer(40)), Some(41));
        let beside = [
            [0x19, 0x5c].as_slice(),
            &[0x48, 1, b's', 0x15, 4, 0],
            &[0x48, 1, b'a', 0x15, 2, 0, 0x15, 12, 0x38, 1, b'k', 0],
            &[0x48, 1, b'b', 0x15, 2, 0, 0x15, 12, 0x38, 1, b'k', 0],
        ];
        assert_eq!(depth_of_columns(&[&[0x15, 2], &*beside.concat(), &[0]].concat()), Some(2));
    }

    #[test]
    fn a_truncated_footer_is_rejected() {
        let whole = footer(3);
        for end in 0..whole.len() {
            assert_eq!(depth_of_columns(&whole[..end]), None);
        }
    }
}
