//! Shards do not depend on threads and blocks, and what is held is bounded.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use gristmill::Tokenizer;

use super::*;
use crate::{Encode, OnError, Read, Surrogates, Unit, Written, read};

/// Keeps the reports.
#[derive(Default)]
struct Reports(Vec<ShardReport>);

impl Watch for Reports {
    fn shard(&mut self, report: &ShardReport) -> Result<()> {
        self.0.push(report.clone());
        Ok(())
    }

    fn progress(&mut self, _: &Progress) -> Result<()> {
        Ok(())
    }
}

fn job(number: u64, path: &Path, folder: &Path, shard_bytes: Option<u64>) -> Job {
    let input = read::inspect(path, None, None, 10_000).unwrap();
    let unit = |range: &read::Range| Unit {
        path: path.to_owned(),
        format: input.format.clone(),
        compression: input.compression.clone(),
        start: range.start,
        end: range.end,
        size: input.size,
        modified: input.modified,
    };
    Job {
        number,
        folder: folder.to_owned(),
        units: input.units.iter().map(unit).collect(),
        read: Read {
            field: "text".to_owned(),
            separator: None,
            max_document: 1 << 20,
            on_error: OnError::Quarantine,
            surrogates: Surrogates::Error,
            keep_empty: false,
        },
        encode: Encode {
            special: "text".to_owned(),
            add_special_tokens: false,
        },
        outputs: serde_json::from_str(r#"[{"format": "megatron", "id_end": 50257}]"#).unwrap(),
        shard_bytes,
        skip: 0,
    }
}

fn lines(count: usize) -> String {
    let line = |at: usize| match at % 11 {
        3 => "not JSON\n".to_owned(),
        5 => "{\"text\": \"\"}\n".to_owned(),
        _ => format!(
            "{{\"text\": \"{}\"}}\n",
            format!("text {at}\\n").repeat(at % 37)
        ),
    };
    (0..count).map(line).collect()
}

fn options(threads: usize, block_bytes: usize) -> Options {
    Options {
        threads,
        max_memory: 1 << 24,
        block_bytes,
    }
}

/// All files under a folder.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for inner in ["megatron", "quarantine"] {
        for file in fs::read_dir(folder.join(inner)).unwrap() {
            let path = file.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            found.insert(format!("{inner}/{name}"), fs::read(path).unwrap());
        }
    }
    found
}

#[test]
fn shards_do_not_depend_on_threads_and_blocks() {
    let tokenizer = Tokenizer::embedded("gpt2").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    fs::write(&path, lines(700)).unwrap();
    let mut first = None;
    for threads in [1, 2, 7] {
        for block_bytes in [1, 33, 1000, 0] {
            let out = folder.path().join(format!("{threads} {block_bytes}"));
            let jobs: Vec<Job> = (0..3)
                .map(|number| job(number, &path, &out, (number > 0).then_some(number * 5000)))
                .collect();
            let mut reports = Reports::default();
            run(
                &tokenizer,
                &jobs,
                &options(threads, block_bytes),
                &mut reports,
            )
            .unwrap();
            reports.0.sort_by_key(|report| (report.job, report.shard));
            for report in &mut reports.0 {
                report.read_bytes = 0;
                let bad: u64 = report.bad.values().sum();
                assert_eq!(report.records, report.documents + report.empty + bad);
            }
            let found = (files(&out), reports.0);
            match &first {
                None => first = Some(found),
                Some(first) => assert_eq!(&found, first, "{threads} threads, {block_bytes} bytes"),
            }
        }
    }
}

/// Takes its time over documents, and knows how many are ahead of it.
struct Slow;

impl ShardWriter for Slow {
    fn document(&mut self, _: &[u32]) -> Result<()> {
        std::thread::sleep(std::time::Duration::from_micros(200));
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Vec<Written>> {
        Ok(Vec::new())
    }
}

#[test]
fn a_slow_writer_stops_the_reading() {
    let tokenizer = Tokenizer::embedded("gpt2").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    fs::write(&path, lines(3000)).unwrap();
    let jobs = [job(0, &path, folder.path(), None)];
    let open =
        |_: &Output, _: &Path, _: &str| -> Result<Box<dyn ShardWriter>> { Ok(Box::new(Slow)) };
    let made = Run::new(&tokenizer, &jobs, &options(2, 500), &open).unwrap();
    let run = Run {
        window: 20_000,
        ..made
    };
    let most = AtomicUsize::new(0);
    let (close, closings) = mpsc::channel();
    let (events, _heard) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..2 {
            let close = close.clone();
            let (run, most) = (&run, &most);
            scope.spawn(move || {
                run.work(&close).unwrap();
                most.fetch_max(usize::MAX / 2, Ordering::Relaxed);
            });
        }
        drop(close);
        let run = &run;
        scope.spawn(move || run.close(&closings, &events));
        let mut highest = 0;
        while most.load(Ordering::Relaxed) == 0 {
            highest = highest.max(lock(&run.state).held);
            thread::sleep(Duration::from_millis(1));
        }
        // The window, and the ids of a block for each thread.
        assert!(highest < 30_000, "{highest} bytes");
        assert!(highest > 1000, "{highest} bytes");
    });
}

#[test]
fn an_error_of_any_stage_ends_the_run() {
    let tokenizer = Tokenizer::embedded("gpt2").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    fs::write(&path, lines(700)).unwrap();
    let refuse = |_: &Output, _: &Path, _: &str| -> Result<Box<dyn ShardWriter>> {
        Err(Error::Refused("no".to_owned()))
    };
    for threads in [1, 2, 7] {
        let jobs = [job(0, &path, folder.path(), None)];
        let mut reports = Reports::default();
        let done = run_with(
            &tokenizer,
            &jobs,
            &options(threads, 50),
            &refuse,
            &mut reports,
        );
        assert!(matches!(done, Err(Error::Refused(_))));
        let mut stop = job(0, &path, folder.path(), None);
        stop.read.on_error = OnError::Stop;
        let done = run(&tokenizer, &[stop], &options(threads, 50), &mut reports);
        let error = done.unwrap_err().to_string();
        assert!(error.contains("is bad: invalid JSON"), "{error}");
        let mut gone = job(0, &path, folder.path(), None);
        gone.units[0].path = folder.path().join("gone");
        let done = run(&tokenizer, &[gone], &options(threads, 50), &mut reports);
        assert!(matches!(done, Err(Error::Io { .. })));
        assert!(reports.0.is_empty());
    }
}
