//! What is written comes back, by any way; what is changed is found.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::write::tests::{folder, output, shard};
use crate::write::{Format, Output, Pack, Sequences, finish_output};

/// Write shards and what stands beside them.
fn written(output: &Output, folder: &Path, shards: &[Vec<Vec<u32>>]) {
    let reports: Vec<_> = shards
        .iter()
        .enumerate()
        .map(|(number, documents)| {
            let files = shard(output, folder, &format!("shard-{number:06}"), documents);
            (documents.len() as u64, files)
        })
        .collect();
    finish_output(folder, output, reports).unwrap();
}

/// Every document, in order and then in another one.
fn read_back(collection: &mut Collection) -> Vec<Vec<u32>> {
    let mut all = Vec::new();
    collection
        .each(|number, ids| {
            assert_eq!(number, all.len() as u64);
            all.push(ids.to_vec());
            Ok(())
        })
        .unwrap();
    for number in (0..collection.documents()).rev() {
        let mut ids = Vec::new();
        collection.read(number, &mut ids).unwrap();
        assert_eq!(ids, all[number as usize], "document {number}");
    }
    all
}

fn framed(output: &Output, shards: &[Vec<Vec<u32>>]) -> Vec<Vec<u32>> {
    let frame = |ids: &Vec<u32>| {
        if ids.is_empty() && output.format == Format::Megatron {
            return Vec::new();
        }
        [&output.before[..], ids, &output.after].concat()
    };
    shards.iter().flatten().map(frame).collect()
}

/// Every way of writing a format that there is.
fn outputs() -> impl Strategy<Value = Output> {
    let sequences =
        (1u64..40, 0..3usize, prop::option::of(1u64..5)).prop_map(|(length, pack, per_file)| {
            Sequences {
                length,
                pack: [Pack::None, Pack::Concat, Pack::Bestfit][pack],
                pad: 7,
                per_file,
            }
        });
    (
        prop::sample::select(&Format::ALL),
        prop::option::of(sequences),
        prop::option::of(1u64..50),
        prop::collection::vec(0u32..300, 0..2),
        prop::collection::vec(0u32..300, 0..3),
        prop::sample::select(vec![300u64, 65_500, 65_536, 65_537, 1 << 31]),
    )
        .prop_map(|(format, sequences, max_tokens, before, after, id_end)| {
            let mut made = Output {
                before,
                after,
                id_end,
                ..output(format)
            };
            match format {
                Format::Npy => made.sequences = sequences.or(made.sequences),
                Format::Mds | Format::Litdata => {
                    made.sequences = sequences;
                    // These formats have no items without ids.
                    made.after.push(5);
                }
                Format::Parquet | Format::Arrow => made.sequences = sequences,
                Format::Megatron => {}
                _ => made.max_tokens = max_tokens,
            }
            made
        })
}

fn shards() -> impl Strategy<Value = Vec<Vec<Vec<u32>>>> {
    let document = prop::collection::vec(0u32..300, 0..60);
    prop::collection::vec(prop::collection::vec(document, 0..12), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn any_documents_come_back(output in outputs(), shards in shards()) {
        let folder = folder();
        written(&output, folder.path(), &shards);
        let mut collection = Collection::open(folder.path(), None).unwrap();
        prop_assert_eq!(read_back(&mut collection), framed(&output, &shards));
        let verified = verify(&collection, 2, &|| Ok(())).unwrap();
        prop_assert_eq!(&verified.problems, &Vec::<String>::new());
        prop_assert_eq!(verified.documents, verified.begun);
        prop_assert_eq!(verified.documents, verified.ended);
    }

    #[test]
    fn merging_any_split_is_writing_at_once(output in outputs(), shards in shards()) {
        let (parts, merged, whole) =
            (folder(), folder(), folder());
        written(&output, parts.path(), &shards);
        written(&output, whole.path(), &[shards.concat()]);
        let source = Collection::open(parts.path(), None).unwrap();
        convert(&mut [source], &output, merged.path(), None, &|| Ok(())).unwrap();
        let name = output.format.name();
        let mut names: Vec<_> = fs::read_dir(whole.path().join(name))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        prop_assert_eq!(fs::read_dir(merged.path().join(name)).unwrap().count(), names.len());
        for file in names {
            let path = Path::new(name).join(&file);
            let (one, other) = (merged.path().join(&path), whole.path().join(&path));
            prop_assert!(fs::read(one).unwrap() == fs::read(other).unwrap(), "{file:?}");
        }
    }

    #[test]
    fn there_and_back_is_the_same(one in outputs(), other in outputs(), shards in shards()) {
        let (first, second, third) =
            (folder(), folder(), folder());
        // Megatron's documents without ids have nothing around them, which MDS cannot hold.
        let shards: Vec<Vec<Vec<u32>>> = shards
            .into_iter()
            .map(|shard| shard.into_iter().filter(|ids| !ids.is_empty()).collect())
            .collect();
        let other = Output { before: one.before.clone(), after: one.after.clone(), ..other };
        written(&one, first.path(), &shards);
        let mut source = [Collection::open(first.path(), None).unwrap()];
        convert(&mut source, &other, second.path(), Some(40), &|| Ok(())).unwrap();
        let mut source = [Collection::open(second.path(), None).unwrap()];
        prop_assert_eq!(read_back(&mut source[0]), framed(&one, &shards));
        convert(&mut source, &one, third.path(), Some(30), &|| Ok(())).unwrap();
        let mut back = Collection::open(third.path(), None).unwrap();
        prop_assert_eq!(read_back(&mut back), framed(&one, &shards));
    }
}

fn some_documents() -> Vec<Vec<Vec<u32>>> {
    let documents = |from: u32| {
        (from..from + 9)
            .map(|n| (0..n * 7 % 30 + 1).collect())
            .collect()
    };
    vec![documents(0), documents(3)]
}

/// Every way a file is spoilt is found, by opening or reading it or by verifying, and named.
#[test]
fn a_changed_file_is_found_and_named() {
    for format in Format::ALL {
        let folder = folder();
        written(&output(format), folder.path(), &some_documents());
        let collection = Collection::open(folder.path(), None).unwrap();
        let list = collection.list().clone();
        for file in list.shards.iter().flat_map(|shard| &shard.files) {
            let path = folder.path().join(&file.name);
            let good = fs::read(&path).unwrap();
            let mut flipped = good.clone();
            flipped[good.len() / 2] ^= 1;
            let cut = good[..good.len() - 1].to_vec();
            let longer = [&good[..], b"\0"].concat();
            for bad in [flipped, cut, longer, Vec::new()] {
                fs::write(&path, bad).unwrap();
                let verified = verify(&collection, 1, &|| Ok(())).unwrap();
                assert_eq!(verified.problems.len(), 1, "{}: {verified:?}", file.name);
                assert!(verified.problems[0].contains(&file.name), "{verified:?}");
            }
            fs::remove_file(&path).unwrap();
            let verified = verify(&collection, 1, &|| Ok(())).unwrap();
            assert!(
                verified.problems[0].contains("No such file"),
                "{verified:?}"
            );
            fs::write(&path, good).unwrap();
        }
        assert_eq!(
            verify(&collection, 1, &|| Ok(())).unwrap().problems,
            Vec::<String>::new()
        );
    }
}

/// Without a hash to go by, a file that was cut off is an error of reading, never a short success.
#[test]
fn a_cut_file_is_an_error_of_reading() {
    for format in Format::ALL {
        let folder = folder();
        written(&output(format), folder.path(), &some_documents());
        let list = Collection::open(folder.path(), None)
            .unwrap()
            .list()
            .clone();
        for file in list.shards.iter().flat_map(|shard| &shard.files) {
            if file.name.ends_with(".metadata") || file.name.ends_with(".csv.gz") {
                // Not read: what they say is in the list.
                continue;
            }
            let path = folder.path().join(&file.name);
            let good = fs::read(&path).unwrap();
            for left in [
                good.len() - 1,
                good.len() - 2,
                good.len() / 2,
                100.min(good.len() - 1),
                3,
                0,
            ] {
                fs::write(&path, &good[..left]).unwrap();
                let outcome = Collection::open(folder.path(), None)
                    .and_then(|mut collection| collection.each(|_, _| Ok(())));
                let error = outcome.expect_err(&format!("{} cut at {left}", file.name));
                assert!(
                    error.to_string().contains(folder.path().to_str().unwrap()),
                    "{error}"
                );
            }
            fs::write(&path, good).unwrap();
        }
    }
}

/// What others write has no list: Megatron's, llm.c's, datatrove's, MDS and Parquet files by themselves.
#[test]
fn files_without_a_list_are_read() {
    for format in [
        Format::Megatron,
        Format::Datatrove,
        Format::Mds,
        Format::Litdata,
        Format::Parquet,
        Format::Arrow,
    ] {
        for id_end in [300, 70_000] {
            let folder = folder();
            let made = Output {
                id_end,
                ..output(format)
            };
            written(&made, folder.path(), &some_documents());
            let inside = folder.path().join(format.name());
            fs::remove_file(inside.join(crate::write::LIST)).unwrap();
            let named = (format == Format::Litdata).then_some(format);
            let mut collection = Collection::open(&inside, named).unwrap();
            let expected = framed(&made, &some_documents());
            assert_eq!(read_back(&mut collection), expected, "{format:?}");
            if format == Format::Megatron {
                let mut one = Collection::open(&inside.join("shard-000001"), None).unwrap();
                assert_eq!(read_back(&mut one), expected[9..]);
            }
        }
    }
}

/// Trap 15: counts of 31 bits. A file of llm.c ends before it has more ids than asked, to the very id.
#[test]
fn files_of_llmc_are_cut_to_the_id() {
    let folder = folder();
    let made = Output {
        max_tokens: Some(10),
        ..output(Format::Llmc)
    };
    let files = shard(&made, folder.path(), "shard-000000", &some_documents()[0]);
    let sizes: Vec<u64> = files
        .iter()
        .filter(|file| file.name.ends_with(".bin"))
        .map(|file| file.tokens)
        .collect();
    let (last, full) = sizes.split_last().unwrap();
    assert!(
        full.iter().all(|tokens| *tokens == 10) && (1..=10).contains(last),
        "{sizes:?}"
    );
}
