//! General categories as the BERT normalizer of the reference sees them: Unicode 8.0.
//!
//! Invariant: a bound at an even place starts a range, the next one ends it. Tested against the source of the tables for every
//! scalar value.

#[path = "categories_table.rs"]
mod table;

/// Whether `code` lies in the set given by the sorted codes where membership starts and stops.
fn contains(bounds: &[u32], character: char) -> bool {
    bounds.partition_point(|bound| *bound <= character as u32) % 2 == 1
}

/// General category Mn.
pub(crate) fn is_nonspacing_mark(character: char) -> bool {
    character >= '\u{300}' && contains(&table::NONSPACING_MARKS, character)
}

/// General categories Cc, Cf and Co, but for the three control characters that count as white space.
pub(crate) fn is_bert_control(character: char) -> bool {
    match character {
        '\t' | '\n' | '\r' => false,
        ' '..='~' => false,
        _ => contains(&table::OTHERS, character),
    }
}

/// ASCII punctuation, symbols among it, and the general categories Pc, Pd, Ps, Pe, Pi, Pf and Po.
pub(crate) fn is_punctuation(character: char) -> bool {
    character.is_ascii_punctuation() || contains(&table::PUNCTUATION, character)
}

#[cfg(test)]
mod tests {
    use super::*;
    use unicode_categories::UnicodeCategories;

    #[test]
    fn every_scalar_equals_the_source() {
        for character in '\0'..=char::MAX {
            assert_eq!(
                is_nonspacing_mark(character),
                character.is_mark_nonspacing(),
                "{character:?}"
            );
            let punctuation = character.is_ascii_punctuation() || character.is_punctuation();
            assert_eq!(is_punctuation(character), punctuation, "{character:?}");
            let control = character.is_other() && !matches!(character, '\t' | '\n' | '\r');
            assert_eq!(is_bert_control(character), control, "{character:?}");
        }
    }
}
