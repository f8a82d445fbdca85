//! Encoding with models that see no pieces, only spaces made visible.
//!
//! The spaces are never made visible: units are cut from the text as it is (`split/spaced.rs`), and only a
//! unit that is not known yet is written as the model sees it. Tested against the general way, in which
//! normalizers and pre-tokenizers do what their names say.

use crate::error::Result;
use crate::model::bpe::sink::Sink;
use crate::model::bpe::{Cache, SpacedEncoding};
use crate::parts::{Normalization, Parts};
use crate::simd::Tier;
use crate::special::{Part, Special, Stage};
use crate::split::Spaced;

/// How a text without pieces is cut into units.
pub(crate) struct VisibleSpaces {
    /// What stands for a space.
    space: String,
    /// One more of it stands before every text.
    prefixed: bool,
    spaced: Spaced,
}

impl VisibleSpaces {
    /// Of a tokenizer that does nothing else to a text.
    pub(crate) fn of(parts: &Parts) -> Option<VisibleSpaces> {
        let Normalization::Json(normalizer) = &parts.normalization else {
            return None;
        };
        let (space, prefixed) = normalizer.visible_spaces()?;
        let cuts = parts.model.cuts.as_ref()?;
        if parts.model.whole_pieces || !parts.pre_tokenizer.finds_spaces_only() {
            return None;
        }
        Some(VisibleSpaces {
            space: space.to_string(),
            prefixed,
            spaced: Spaced::new(cuts, space),
        })
    }

    /// Give `sink` the ids of a text.
    pub(crate) fn encode<S: Sink>(
        &self,
        parts: &Parts,
        text: &str,
        special: &Special,
        cache: &mut Cache,
        sink: &mut S,
    ) -> Result<()> {
        let Parts { added, model, .. } = parts;
        let Some(cuts) = &model.cuts else {
            return Ok(());
        };
        added.cut(Stage::Raw, text, special, |part| match part {
            Part::Token(token, _) => {
                sink.push(&[token.id]);
                Ok(())
            }
            Part::Text(range) => {
                let text = &text[range];
                let mut encoding = SpacedEncoding {
                    model,
                    text: text.as_bytes(),
                    space: &self.space,
                    prefixed: self.prefixed,
                    cache,
                    sink,
                };
                let spaced = &self.spaced;
                spaced.units(Tier::get(), text, cuts, &mut encoding)
            }
        })
    }
}
