//! The shards of one job: documents in order into writers, bad records into a quarantine, and everything
//! under its name once it is complete.
//!
//! A shard ends behind the document with which it has got as many bytes of text as the job asks for; what
//! is not a document goes with the documents before it. Invariant: where shards end depends on the records
//! alone, so that shards that exist can be read over without being encoded.

use std::fs::{self, File};
use std::path::Path;

use serde::Serialize;

use super::Open;
use super::encode::{BAD, EMPTY, Room};
use crate::read::{Block, HEAD, Reason, Record};
use crate::write::{ASIDE, Aside, Place, ShardWriter};
use crate::{Error, Job, OnError, Result, ShardReport, Unit, Written};

/// The folder of bad records.
const QUARANTINE: &str = "quarantine";

/// The shards of one job, one after the other.
pub(super) struct Shards<'a> {
    /// Which of the run's jobs it is.
    lane: usize,
    job: &'a Job,
    /// The number of the shard at hand.
    number: u64,
    open: Option<Shard>,
    /// Bytes of text in the shard at hand.
    text: u64,
    /// The unit at hand, and so many of its records.
    unit: usize,
    records: u64,
}

/// A shard that is being written.
struct Shard {
    writers: Vec<Box<dyn ShardWriter>>,
    quarantine: Option<Quarantine>,
    report: ShardReport,
}

/// A shard of which everything was written.
pub(super) struct Closing<'a> {
    pub(super) lane: usize,
    job: &'a Job,
    shard: Shard,
}

impl<'a> Shards<'a> {
    pub(super) fn new(lane: usize, job: &'a Job) -> Shards<'a> {
        Shards {
            lane,
            job,
            number: job.skip,
            open: None,
            text: 0,
            unit: 0,
            records: 0,
        }
    }

    /// Write what a block became. The shards that are complete now.
    pub(super) fn write(
        &mut self,
        block: &Block,
        room: &Room,
        open: &Open<'_>,
    ) -> Result<Vec<Closing<'a>>> {
        let mut complete = Vec::new();
        let limit = self.job.shard_bytes.unwrap_or(u64::MAX);
        if block.unit != self.unit {
            (self.unit, self.records) = (block.unit, 0);
        }
        if let Some(number) = block.first_record {
            self.records = number;
        }
        let mut ids = room.ids.as_slice();
        let mut bad = room.bad.iter();
        let mut read = block.read;
        for item in &room.items {
            if self.text >= limit {
                complete.extend(self.take(false));
            }
            let (job, number) = (self.job, self.records);
            let shard = self.shard(open)?;
            let report = &mut shard.report;
            report.read_bytes += std::mem::take(&mut read);
            report.records += 1;
            match item.ids {
                BAD => {
                    if let Some(record) = bad.next() {
                        shard.bad(job, block, record, number)?;
                    }
                }
                EMPTY => report.empty += 1,
                count => {
                    let (own, others) = ids.split_at(count as usize);
                    ids = others;
                    shard.document(own, item.text)?;
                }
            }
            self.records += 1;
            self.text += u64::from(item.text);
        }
        if let (Some(unit), Some(_)) = (self.job.units.get(block.unit), block.damage()) {
            self.shard(open)?.report.partial.push(unit.path.clone());
        }
        if read > 0 && (self.open.is_some() || self.number == 0) {
            self.shard(open)?.report.read_bytes += read;
        }
        Ok(complete)
    }

    /// All was written: the last shard, unless all of them existed before.
    pub(super) fn end(&mut self, open: &Open<'_>) -> Result<Option<Closing<'a>>> {
        if self.number == 0 {
            self.shard(open)?;
        }
        Ok(self.take(true))
    }

    fn shard(&mut self, open: &Open<'_>) -> Result<&mut Shard> {
        let made = match self.open.take() {
            Some(shard) => shard,
            None => Shard::new(self.job, self.number, open)?,
        };
        Ok(self.open.insert(made))
    }

    fn take(&mut self, last: bool) -> Option<Closing<'a>> {
        let mut shard = self.open.take()?;
        shard.report.last = last;
        self.number += 1;
        self.text = 0;
        Some(Closing {
            lane: self.lane,
            job: self.job,
            shard,
        })
    }
}

impl Shard {
    fn new(job: &Job, number: u64, open: &Open<'_>) -> Result<Shard> {
        let name = job.shard_name(number);
        fs::create_dir_all(&job.folder).map_err(Error::io(&job.folder))?;
        let writers = job
            .outputs
            .iter()
            .map(|output| open(output, &job.folder, &name));
        Ok(Shard {
            writers: writers.collect::<Result<_>>()?,
            quarantine: None,
            report: ShardReport {
                job: job.number,
                shard: number,
                ..ShardReport::default()
            },
        })
    }

    fn document(&mut self, ids: &[u32], text: u32) -> Result<()> {
        for writer in &mut self.writers {
            writer.document(ids)?;
        }
        let report = &mut self.report;
        report.documents += 1;
        report.text_bytes += u64::from(text);
        report.tokens += ids.len() as u64;
        report.largest = report.largest.max(ids.iter().copied().max());
        if let Some(power) = ids.len().checked_ilog2() {
            let power = power as usize;
            if report.lengths.len() <= power {
                report.lengths.resize(power + 1, 0);
            }
            report.lengths[power] += 1;
        }
        Ok(())
    }

    fn bad(&mut self, job: &Job, block: &Block, record: &Record, number: u64) -> Result<()> {
        let (Some(reason), Some(unit)) = (record.bad, job.units.get(block.unit)) else {
            return Ok(());
        };
        let count = self.report.bad.entry(reason.as_str().to_owned());
        *count.or_default() += 1;
        match job.read.on_error {
            OnError::Skip => Ok(()),
            OnError::Stop => Err(Error::Input {
                path: unit.path.clone(),
                reason: format!(
                    "the record at byte {} is bad: {}{}",
                    block.offset + u64::from(record.at),
                    reason.as_str(),
                    damage(block, record)
                        .map(|what| format!(" ({what})"))
                        .unwrap_or_default(),
                ),
            }),
            OnError::Quarantine => {
                let quarantine = match self.quarantine.take() {
                    Some(quarantine) => quarantine,
                    None => Quarantine::new(&job.folder, &job.shard_name(self.report.shard))?,
                };
                self.quarantine
                    .insert(quarantine)
                    .add(unit, block, record, number)
            }
        }
    }
}

impl Closing<'_> {
    /// Complete, sync and rename the files of the shard.
    pub(super) fn close(self) -> Result<ShardReport> {
        let Shard {
            writers,
            quarantine,
            mut report,
        } = self.shard;
        let folder = &self.job.folder;
        for writer in writers {
            report.files.extend(writer.finish()?);
        }
        if let Some(quarantine) = quarantine {
            report.files.push(quarantine.finish()?);
        }
        let mut folders = vec![folder.clone()];
        for file in &report.files {
            let path = folder.join(&file.name);
            let aside = folder.join(format!("{}{ASIDE}", file.name));
            fs::rename(aside, &path).map_err(Error::io(&path))?;
            if let Some(parent) = path.parent()
                && !folders.iter().any(|known| known == parent)
            {
                folders.push(parent.to_owned());
            }
        }
        // Names are kept in folders, which are synced by themselves.
        for folder in folders {
            let synced = File::open(&folder).and_then(|folder| folder.sync_all());
            synced.map_err(Error::io(&folder))?;
        }
        Ok(report)
    }
}

/// The bad records of a shard: a line of JSON for each.
struct Quarantine {
    file: Aside,
    records: u64,
    line: Vec<u8>,
}

/// A bad record, as the quarantine keeps it.
#[derive(Serialize)]
struct Line<'a> {
    file: &'a Path,
    /// Where the record begins, in the file or in what is compressed in it.
    offset: u64,
    /// Which record of the file it is, from 0 on, where that is known.
    record: Option<u64>,
    reason: &'a str,
    /// The byte of the record where the reason was found.
    at: u32,
    /// What is wrong with the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    damage: Option<&'a str>,
    /// The first bytes of the record; those that are not UTF-8 as \xNN.
    begins: String,
}

impl Quarantine {
    fn new(folder: &Path, shard: &str) -> Result<Quarantine> {
        let place = Place::new(folder, QUARANTINE, shard)?;
        Ok(Quarantine {
            file: place.create(&format!("{shard}.jsonl"))?,
            records: 0,
            line: Vec::new(),
        })
    }

    fn add(&mut self, unit: &Unit, block: &Block, record: &Record, number: u64) -> Result<()> {
        let begins = block.bytes.get(record.range()).unwrap_or_default();
        let line = Line {
            file: &unit.path,
            offset: block.offset + u64::from(record.at),
            record: (unit.start == 0).then_some(number),
            reason: record.bad.map_or("", |reason| reason.as_str()),
            at: record.bad_at,
            damage: damage(block, record),
            begins: readable(&begins[..begins.len().min(HEAD)]),
        };
        self.line.clear();
        let written = serde_json::to_writer(&mut self.line, &line);
        written.map_err(|error| Error::Input {
            path: unit.path.clone(),
            reason: format!("its name cannot be written down: {error}"),
        })?;
        self.line.push(b'\n');
        self.records += 1;
        self.file.write(&self.line)
    }

    fn finish(self) -> Result<Written> {
        self.file.finish(self.records, 0)
    }
}

/// What is wrong with the file, if that is what is wrong with the record.
fn damage<'b>(block: &'b Block, record: &Record) -> Option<&'b str> {
    block
        .damage()
        .filter(|_| record.bad == Some(Reason::CutOff))
}

/// Bytes as text; those that are not UTF-8 as \xNN.
fn readable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}
