//! What holds for every format.

use std::fs;
use std::path::Path;

use super::*;

/// A folder in memory, where there is one: every file is synced, which takes disks their time.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

/// An output without options, as far as the format allows.
pub(crate) fn output(format: Format) -> Output {
    Output {
        format,
        before: vec![],
        after: vec![256],
        id_end: 300,
        width: None,
        sequences: (format == Format::Npy).then_some(Sequences {
            length: 8,
            pack: Pack::Concat,
            pad: 256,
            per_file: None,
        }),
        max_tokens: None,
        tokenizer: None,
    }
}

/// Write one shard and rename its files.
pub(crate) fn shard(
    output: &Output,
    folder: &Path,
    name: &str,
    documents: &[Vec<u32>],
) -> Vec<Written> {
    let mut writer = open(output, folder, name).unwrap();
    for document in documents {
        writer.document(document).unwrap();
    }
    let written = writer.finish().unwrap();
    for file in &written {
        let path = folder.join(&file.name);
        fs::rename(folder.join(format!("{}{ASIDE}", file.name)), path).unwrap();
    }
    written
}

fn documents() -> Vec<Vec<u32>> {
    (0..20).map(|n| (0..n * 7 % 30 + 1).collect()).collect()
}

#[test]
fn what_is_reported_is_what_is_on_disk_and_nothing_is_left_aside() {
    for format in Format::ALL {
        let folder = folder();
        let written = shard(&output(format), folder.path(), "shard-000000", &documents());
        for file in &written {
            let bytes = fs::read(folder.path().join(&file.name)).unwrap();
            assert_eq!(bytes.len() as u64, file.bytes, "{}", file.name);
            let hash = format!("{:032x}", xxhash_rust::xxh3::xxh3_128(&bytes));
            assert_eq!(hash, file.xxh3, "{}", file.name);
            assert!(
                file.name
                    .starts_with(&format!("{}/shard-000000", format.name()))
                    || file.name == "litdata/chunk-shard-000000-000000.bin",
                "{}",
                file.name
            );
        }
        let tokens: u64 = written.iter().map(|file| file.tokens).sum();
        let ids: usize = documents().iter().map(|document| document.len() + 1).sum();
        let filled = if format == Format::Npy {
            ids.next_multiple_of(8)
        } else {
            ids
        };
        assert_eq!(tokens, filled as u64, "{format:?}");
        let on_disk = fs::read_dir(folder.path().join(format.name()))
            .unwrap()
            .count();
        assert_eq!(on_disk, written.len(), "{format:?}");
    }
}

#[test]
fn a_shard_that_is_not_finished_leaves_nothing() {
    for format in Format::ALL {
        let folder = folder();
        let mut writer = open(&output(format), folder.path(), "a").unwrap();
        writer.document(&[1, 2, 3]).unwrap();
        drop(writer);
        let left = fs::read_dir(folder.path().join(format.name()))
            .unwrap()
            .count();
        assert_eq!(left, 0, "{format:?}");
    }
}

#[test]
fn a_shard_without_documents_can_be_written() {
    for format in Format::ALL {
        let folder = folder();
        let written = shard(&output(format), folder.path(), "a", &[]);
        let list = finish_output(folder.path(), &output(format), [(0, written)]).unwrap();
        assert!(
            list.iter().any(|file| file.name.ends_with(LIST)),
            "{format:?}"
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_with_the_path() {
    for format in Format::ALL {
        let folder = folder();
        let names = shard(&output(format), folder.path(), "a", &documents());
        for file in &names {
            let place = folder.path().join(format!("{}{ASIDE}", file.name));
            std::os::unix::fs::symlink("/dev/full", &place).unwrap();
        }
        let outcome = (|| {
            let mut writer = open(&output(format), folder.path(), "a")?;
            for document in documents() {
                writer.document(&document)?;
            }
            writer.finish()
        })();
        let error = outcome.unwrap_err().to_string();
        assert!(
            error.contains("No space left on device"),
            "{format:?}: {error}"
        );
        assert!(
            error.contains(&format!("{}/", format.name())),
            "{format:?}: {error}"
        );
    }
}

#[test]
fn widths_follow_the_largest_possible_id() {
    let at = |format, id_end| {
        width(&Output {
            id_end,
            after: vec![],
            ..output(format)
        })
    };
    for (format, end, expected) in [
        (Format::Megatron, 65_499, Width::U16),
        (Format::Megatron, 65_500, Width::I32),
        (Format::Llmc, 65_536, Width::U16),
        (Format::Llmc, 65_537, Width::U32),
        (Format::Nanogpt, 65_536, Width::U16),
        (Format::Nanogpt, 65_537, Width::U32),
        (Format::Dolma, 256, Width::U8),
        (Format::Dolma, 257, Width::U16),
        (Format::Dolma, 65_537, Width::U32),
        (Format::Datatrove, 65_536, Width::U16),
        (Format::Datatrove, 65_537, Width::U32),
        (Format::Mds, 65_537, Width::I32),
        (Format::Litdata, 65_537, Width::I32),
        (Format::Parquet, 65_537, Width::U32),
    ] {
        assert_eq!(at(format, end).unwrap(), expected, "{format:?} {end}");
    }
    // Trap 12: there is no Megatron, torch or litdata for 32 bits without a sign.
    assert!(at(Format::Megatron, (1 << 31) + 1).is_err());
    assert!(at(Format::Litdata, (1 << 31) + 1).is_err());
    assert_eq!(at(Format::Mds, (1 << 31) + 1).unwrap(), Width::U32);
}

#[test]
fn ids_beyond_the_tokenizers_are_refused() {
    let folder = folder();
    let mut writer = open(&output(Format::Megatron), folder.path(), "a").unwrap();
    let error = writer.document(&[299, 300]).unwrap_err().to_string();
    assert!(error.contains("gave the id 300"), "{error}");
    for bad in [
        Output {
            before: vec![300],
            ..output(Format::Megatron)
        },
        Output {
            width: Some(Width::U8),
            ..output(Format::Nanogpt)
        },
        Output {
            id_end: 70_000,
            width: Some(Width::U16),
            ..output(Format::Nanogpt)
        },
        Output {
            max_tokens: Some(9),
            ..output(Format::Parquet)
        },
        Output {
            sequences: None,
            ..output(Format::Npy)
        },
        Output {
            sequences: output(Format::Npy).sequences,
            ..output(Format::Megatron)
        },
    ] {
        assert!(check(&bad).is_err(), "{bad:?}");
    }
}
