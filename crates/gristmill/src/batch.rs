//! The ids of many texts in one list, made by several threads.
//!
//! Texts are cut where both sides are certain to have the ids that they have together (`split/apart.rs`),
//! so that one long text is work for every thread. Invariant: ids, ends and errors are those of one text
//! after the other. Tested here against that, with every number of threads.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::error::{Error, Result};
use crate::model::bpe::Cache;
use crate::parallel::{self, Flat};
use crate::parts::Normalization;
use crate::special::Special;
use crate::split::PreTokenizer;
use crate::tokenizer::Tokenizer;

/// Texts longer than this may be cut.
const WORTH_CUTTING: usize = 1 << 16;
/// A thread is given about so many parts, so that all end at about the same time.
const PARTS_A_THREAD: usize = 8;

/// A part of a text.
struct Part<'t> {
    text: &'t str,
    /// Which text it is of.
    number: usize,
    range: Range<usize>,
}

impl Tokenizer {
    /// The ids of all texts, one after the other, and where those of each end.
    ///
    /// `threads` is the number of threads, 0 for one a core; long texts are divided among them. The first
    /// error, in the order of the texts, is the result. `check` is called now and then; an error of it ends
    /// the work.
    pub fn encode_batch_flat<T: AsRef<str>>(
        &self,
        texts: &[T],
        special: &Special,
        add_special_tokens: bool,
        threads: usize,
        check: impl Fn() -> Result<()> + Sync,
    ) -> Result<(Vec<u32>, Vec<usize>)> {
        let threads = parallel::limit(threads);
        let around = self.parts.post.around(add_special_tokens);
        let cuts = threads > 1 && around.is_some();
        let (before, after) = around.unwrap_or_default();
        let parts = self.parts_of(texts, special, if cuts { threads } else { 1 });
        let encode = |cache: &mut Box<Cache>, part: &Part<'_>, ids: &mut Vec<u32>| {
            check()?;
            if !cuts {
                return self.encode_cached(part.text, special, add_special_tokens, cache, ids);
            }
            if part.range.start == 0 {
                ids.extend_from_slice(&before);
            }
            let text = part.text.get(part.range.clone()).unwrap_or_default();
            let done = self.encode_cached(text, special, false, cache, ids);
            done.map_err(|error| moved(error, part.range.start))?;
            if part.range.end == part.text.len() {
                ids.extend_from_slice(&after);
            }
            Ok(())
        };
        let work = parallel::Work {
            begin: || self.take_cache(),
            each: encode,
            end: |cache| self.put_cache(cache),
        };
        let Flat { ids, lengths } =
            parallel::gather(&parts, threads, |part| part.range.len(), work)?;
        let mut ends = vec![0; texts.len()];
        let mut end = 0;
        for (part, length) in parts.iter().zip(lengths) {
            end += length;
            ends[part.number] = end;
        }
        Ok((ids, ends))
    }

    /// All texts, the long ones in parts if there are several threads.
    fn parts_of<'t, T: AsRef<str>>(
        &self,
        texts: &'t [T],
        special: &Special,
        threads: usize,
    ) -> Vec<Part<'t>> {
        let total: usize = texts.iter().map(|text| text.as_ref().len()).sum();
        let size = (total / (threads * PARTS_A_THREAD)).max(WORTH_CUTTING);
        let is_long = |text: &T| threads > 1 && text.as_ref().len() > size;
        let cutter = if texts.iter().any(is_long) {
            self.cutter(special)
        } else {
            None
        };
        let mut parts = Vec::with_capacity(texts.len());
        for (number, text) in texts.iter().enumerate() {
            let whole = text.as_ref();
            let part = |range| Part {
                text: whole,
                number,
                range,
            };
            let mut start = 0;
            if let Some(cutter) = cutter.as_ref().filter(|_| is_long(text)) {
                for asked in (size..whole.len()).step_by(size) {
                    if let Some(at) = cutter.cut(whole, asked, asked.saturating_add(size)) {
                        parts.push(part(start..at));
                        start = at;
                    }
                }
            }
            parts.push(part(start..whole.len()));
        }
        parts
    }

    /// What cuts texts, if there is anything that may.
    fn cutter(&self, special: &Special) -> Option<Cutter<'_>> {
        let unchanged = match &self.parts.normalization {
            Normalization::None => true,
            Normalization::Json(normalizer) if normalizer.leaves_ascii() => false,
            _ => return None,
        };
        Some(Cutter {
            pre_tokenizer: &self.parts.pre_tokenizer,
            unchanged,
            held: self.parts.added.held(special)?,
        })
    }
}

/// Finds where a text may be cut.
struct Cutter<'a> {
    pre_tokenizer: &'a PreTokenizer,
    /// Texts are not normalised; else only what is ASCII is certain to stay as it is.
    unchanged: bool,
    /// Characters of added tokens: one that begins before a cut must not end behind it.
    held: BTreeSet<char>,
}

impl Cutter<'_> {
    /// The first place from `from` on and before `to`.
    fn cut(&self, text: &str, from: usize, to: usize) -> Option<usize> {
        self.pre_tokenizer.cut(text, from, to, |before, behind| {
            (self.unchanged || (before.is_ascii() && behind.is_ascii()))
                && !self.held.contains(&behind)
        })
    }
}

/// An error in a part that begins at `start`, as one in its text.
fn moved(error: Error, start: usize) -> Error {
    match error {
        Error::SpecialToken { token, at } => Error::SpecialToken {
            token,
            at: start + at,
        },
        Error::Limit { what, at } => Error::Limit {
            what,
            at: start + at,
        },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts with everything that could go wrong at a cut, long enough to be cut.
    fn texts() -> Vec<String> {
        let sentences = [
            "It's a test, isn't it? I'LL say so's 12345 times.\n\n  Well...\r\n",
            "中文文本，没有空格。日本語のテキスト、です！\n",
            "e\u{301}te\u{301} \u{301}a naïve ſ's 'ſ  x\u{3000}y\u{85}z\t\tq /path//to\n/x ",
            "<|endoftext|> a<|endoftext|>b <tool_call> ",
            "HTTPResponse camelCase's ǅa 🙂👨‍👩‍👧 नमस्ते สวัสดี ١٢٣٤ ",
        ];
        let mixed = |from: usize, count: usize| -> String {
            (from..from + count)
                .map(|at| sentences[at * at % 7 % sentences.len()])
                .collect()
        };
        let mut texts: Vec<String> = sentences.iter().map(|one| one.repeat(4000)).collect();
        texts.extend([String::new(), mixed(1, 9000), "x".repeat(300_000)]);
        texts.extend((0..50).map(|at| mixed(at, 5)));
        texts.push(mixed(3, 20_000));
        texts
    }

    #[test]
    fn ids_are_those_of_one_text_after_the_other() {
        let texts = texts();
        for name in crate::EMBEDDED {
            let tokenizer = Tokenizer::embedded(name).unwrap();
            for special in [Special::Text, Special::Parse] {
                let mut ids = Vec::new();
                let mut ends = Vec::new();
                for text in &texts {
                    ids.extend(tokenizer.encode(text, &special).unwrap());
                    ends.push(ids.len());
                }
                for threads in [1, 2, 3, 16] {
                    let found =
                        tokenizer.encode_batch_flat(&texts, &special, true, threads, || Ok(()));
                    assert!(
                        found.unwrap() == (ids.clone(), ends.clone()),
                        "{name} {threads}"
                    );
                }
            }
        }
    }

    #[test]
    fn long_texts_of_any_script_are_cut() {
        let tokenizer = Tokenizer::embedded("o200k_base").unwrap();
        for text in texts().iter().take(3) {
            let texts = [text];
            let parts = tokenizer.parts_of(&texts, &Special::Text, 2);
            assert!(parts.len() >= 3, "{} parts", parts.len());
            let joined: String = parts.iter().map(|part| &text[part.range.clone()]).collect();
            assert!(joined == *text);
        }
    }

    #[test]
    fn the_first_error_in_order_says_where() {
        let tokenizer = Tokenizer::embedded("gpt2").unwrap();
        let long = "some words ".repeat(60_000);
        let late = format!("{long}<|endoftext|>");
        let error = |texts: &[&str], threads| {
            let found =
                tokenizer.encode_batch_flat(texts, &Special::Forbid, false, threads, || Ok(()));
            match found.unwrap_err() {
                Error::SpecialToken { at, .. } => at,
                other => panic!("{other}"),
            }
        };
        for threads in [1, 2, 8] {
            assert_eq!(error(&[&long, &late, "<|endoftext|>"], threads), long.len());
            assert_eq!(error(&["a <|endoftext|>", &late], threads), 2);
        }
        let stop = || Err(Error::Interrupted);
        let stopped = tokenizer.encode_batch_flat(&[&long], &Special::Text, false, 2, stop);
        assert!(matches!(stopped, Err(Error::Interrupted)));
    }
}
