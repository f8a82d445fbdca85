//! What each character may do under the four normal forms of Unicode 9.0: the quick check of `normalize::forms`.
//!
//! Invariant: a character is `Inert` in a form only if it is a starter, is left alone by the form and can never combine
//! with a character before it; so text may be cut before it. Tested by `forms` and by `every_scalar_has_the_right_role`.

#[path = "normal_forms_table.rs"]
mod table;

use std::sync::LazyLock;

/// What a character may do in one normal form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A starter that stays as it is, whatever stands before it.
    Inert,
    /// A combining character that stays as it is if it is in canonical order.
    Ordered,
    /// Anything that may be replaced, or may combine with what stands before it.
    Active,
}

const BLOCK: usize = 128;

/// Two-stage table of the roles of all characters in all four forms, two bits per form.
pub(crate) struct Roles {
    block_of: Vec<u8>,
    blocks: Vec<[u8; BLOCK]>,
}

static ROLES: LazyLock<Roles> = LazyLock::new(Roles::expand);

impl Roles {
    /// The table, made from its compact form at first use.
    pub(crate) fn get() -> &'static Self {
        &ROLES
    }

    fn expand() -> Self {
        let mut flat = vec![0_u8; table::END.next_multiple_of(BLOCK)];
        for (at, run) in table::RUNS.iter().enumerate() {
            let end = table::RUNS
                .get(at + 1)
                .map_or(table::END, |next| (next >> 3) as usize);
            let value = table::VALUES
                .get((run & 7) as usize)
                .copied()
                .unwrap_or_default();
            if let Some(part) = flat.get_mut((run >> 3) as usize..end) {
                part.fill(value);
            }
        }
        let mut roles = Self {
            block_of: Vec::new(),
            blocks: Vec::new(),
        };
        for block in flat.as_chunks::<BLOCK>().0 {
            let known = roles.blocks.iter().position(|seen| seen == block);
            let number = known.unwrap_or(roles.blocks.len());
            if known.is_none() {
                roles.blocks.push(*block);
            }
            roles
                .block_of
                .push(u8::try_from(number).unwrap_or_default());
        }
        roles
    }

    /// The role of `character` in the form whose bits start at `shift` (0 NFC, 2 NFD, 4 NFKC, 6 NFKD).
    #[inline]
    pub(crate) fn role(&self, character: char, shift: u32) -> Role {
        let code = character as usize;
        let block = self
            .block_of
            .get(code / BLOCK)
            .and_then(|number| self.blocks.get(usize::from(*number)));
        match block.map_or(0, |block| (block[code % BLOCK] >> shift) & 3) {
            0 => Role::Inert,
            1 => Role::Ordered,
            _ => Role::Active,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unicode_normalization_alignments::{UnicodeNormalization, char::canonical_combining_class};

    #[test]
    fn every_scalar_has_the_right_role() {
        let roles = Roles::get();
        assert!(roles.blocks.len() <= 256);
        let mut buffer = [0; 4];
        for character in '\0'..=char::MAX {
            let text: &str = character.encode_utf8(&mut buffer);
            let forms: [Vec<(char, isize)>; 4] = [
                text.nfc().collect(),
                text.nfd().collect(),
                text.nfkc().collect(),
                text.nfkd().collect(),
            ];
            for (shift, form) in [0, 2, 4, 6].into_iter().zip(forms) {
                let role = roles.role(character, shift);
                if form != [(character, 0)] {
                    assert_eq!(role, Role::Active, "{character:?} {shift}");
                } else if canonical_combining_class(character) != 0 {
                    assert_ne!(role, Role::Inert, "{character:?} {shift}");
                }
            }
        }
    }

    #[test]
    fn unicode_9_and_not_later() {
        let roles = Roles::get();
        // U+1611E and its neighbours were unassigned in Unicode 9, U+0EBA had no combining class.
        for character in [
            '\u{1611E}',
            '\u{1611F}',
            '\u{0EBA}',
            '\u{1DF8}',
            '\u{16D67}',
        ] {
            assert_eq!(roles.role(character, 0), Role::Inert);
        }
        assert_eq!(roles.role('\u{301}', 0), Role::Active);
        assert_eq!(roles.role('\u{93C}', 0), Role::Active);
        assert_eq!(roles.role('\u{94D}', 0), Role::Ordered);
        assert_eq!(roles.role('é', 0), Role::Inert);
        assert_eq!(roles.role('é', 2), Role::Active);
    }
}
