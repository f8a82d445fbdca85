//! Where tokens stand in a text that nothing changes: the lengths of tokens that are bytes tell.
//!
//! Most tokenizers take most texts as they are, and the tokens of a piece are its bytes, one after the
//! other. Then the ids are all there is to find, and one walk over them counts bytes and characters.
//! Tested in `two_ways.rs` and from Python against what is done for all other texts, and against the
//! tokenizers library.

use crate::error::Result;
use crate::model::bpe::{Cache, Encoding};
use crate::parts::Normalization;
use crate::special::{Special, Stage};
use crate::tokenizer::{Offset, Tokenizer, Unit};

/// Ids, and for each where it stands in the text.
type Placed = (Vec<u32>, Vec<Offset>);

impl Tokenizer {
    /// What [`Tokenizer::encode_with_offsets`] gives, or `None` if the text or the tokenizer is of another
    /// kind.
    pub(crate) fn plain_offsets(
        &self,
        text: &str,
        special: &Special,
        add_special_tokens: bool,
        unit: Unit,
        cache: &mut Cache,
    ) -> Result<Option<Placed>> {
        let parts = &self.parts;
        let added = [Stage::Raw, Stage::Normalized];
        if !matches!(parts.normalization, Normalization::None)
            || added
                .into_iter()
                .any(|stage| parts.added.matter(stage, special))
            || !parts.model.keeps_bytes()
            || parts.post.trims()
        {
            return Ok(None);
        }
        let Some((mut ids, behind)) = parts.post.around(add_special_tokens) else {
            return Ok(None);
        };
        let before = ids.len();
        ids.reserve(text.len() / 3 + behind.len());
        let mut encoding = Encoding {
            model: &parts.model,
            text: text.as_bytes(),
            cache,
            sink: &mut ids,
        };
        let cuts = parts.model.cuts.as_ref();
        match parts.pre_tokenizer.batches(text, cuts, &mut encoding) {
            Some(done) => done?,
            None => return Ok(None),
        }
        let lengths = ids[before..]
            .iter()
            .map(|&id| parts.model.vocab.get(id).map_or(0, <[u8]>::len));
        let mut offsets = vec![Offset { start: 0, end: 0 }; before];
        offsets.reserve(lengths.len() + behind.len());
        match unit {
            Unit::Chars if !text.is_ascii() => offsets.extend(in_chars(text.as_bytes(), lengths)),
            Unit::Chars | Unit::Bytes => offsets.extend(in_bytes(text, lengths)),
        }
        offsets.resize(offsets.len() + behind.len(), Offset { start: 0, end: 0 });
        ids.extend(behind);
        Ok(Some((ids, offsets)))
    }
}

/// The places of parts of these lengths, one after the other, in bytes. A part of a character has the place
/// of all of it.
fn in_bytes(text: &str, lengths: impl Iterator<Item = usize>) -> impl Iterator<Item = Offset> {
    let mut at = 0;
    lengths.map(move |length| {
        let (start, end) = (at, at + length);
        at = end;
        Offset {
            start: text.floor_char_boundary(start),
            end: text.ceil_char_boundary(end),
        }
    })
}

/// The same in characters.
fn in_chars(text: &[u8], lengths: impl Iterator<Item = usize>) -> impl Iterator<Item = Offset> {
    let begins = |byte: &&u8| **byte & 0xC0 != 0x80;
    let (mut at, mut chars) = (0, 0);
    lengths.map(move |length| {
        let part = text.get(at..at + length).unwrap_or_default();
        at += length;
        // Of a character that began before, all belongs to this part too.
        let inside = part.first().is_some_and(|byte| !begins(&byte));
        let start = chars - usize::from(inside);
        chars += part.iter().filter(begins).count();
        Offset { start, end: chars }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_characters_have_the_place_of_the_whole() {
        let text = "aé中b";
        let lengths = [1, 1, 1, 1, 1, 2];
        let pairs = |offsets: &[Offset]| -> Vec<(usize, usize)> {
            offsets
                .iter()
                .map(|offset| (offset.start, offset.end))
                .collect()
        };
        let bytes: Vec<Offset> = in_bytes(text, lengths.into_iter()).collect();
        assert_eq!(
            pairs(&bytes),
            [(0, 1), (1, 3), (1, 3), (3, 6), (3, 6), (3, 7)]
        );
        let chars: Vec<Offset> = in_chars(text.as_bytes(), lengths.into_iter()).collect();
        assert_eq!(
            pairs(&chars),
            [(0, 1), (1, 2), (1, 2), (2, 3), (2, 3), (2, 4)]
        );
    }

    #[test]
    fn the_short_way_is_the_long_one() -> Result<()> {
        let texts = [
            "",
            "Hello, world!",
            "naïve 日本語 🙂🏽",
            "\u{301}\u{FFFD}  \n é",
            "𠮷𠀀 ½ ͏",
        ];
        for name in crate::EMBEDDED {
            let tokenizer = Tokenizer::embedded(name)?;
            for text in texts {
                for unit in [Unit::Bytes, Unit::Chars] {
                    let mut cache = Cache::new();
                    let short =
                        tokenizer.plain_offsets(text, &Special::Text, false, unit, &mut cache)?;
                    let long = tokenizer.offsets_of_tokens(text, &Special::Text, false, unit)?;
                    assert_eq!(short, Some(long), "{name} {text:?}");
                }
            }
        }
        Ok(())
    }
}
