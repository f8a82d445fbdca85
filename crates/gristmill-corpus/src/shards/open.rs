//! Finding shards: by the list that lies beside them, or by looking at what there is.
//!
//! Invariant: a shard that opens has headers and sizes that agree, and as many documents as the list
//! says. Tested with files of every format, ours and others', cut and changed.

use std::fs;
use std::path::{Path, PathBuf};

use super::chunks::Chunk;
use super::flat::Flat;
use super::items::{Items, Pieces, Whole};
use super::megatron::Megatron;
use super::npy::Npy;
use super::table::Table;
use super::window::damaged;
use super::{Documents, Known};
use crate::write::{Format, LIST, List, Output, Shard, Width};
use crate::{Error, Result, Written};

/// The folder, the list, and whether the list was there.
pub(super) fn find(path: &Path, format: Option<Format>) -> Result<(PathBuf, List, bool)> {
    if path.is_dir() {
        if let Some(found) = listed(path, format)? {
            return Ok((found.0, found.1, true));
        }
        let mut files = Vec::new();
        for entry in fs::read_dir(path).map_err(Error::io(path))? {
            files.push(entry.map_err(Error::io(path))?.path());
        }
        files.sort();
        return looked_at(path, &files, format);
    }
    let with_extension = |extension: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(extension);
        PathBuf::from(name)
    };
    let (bin, idx) = (with_extension(".bin"), with_extension(".idx"));
    let folder = path.parent().unwrap_or(Path::new(""));
    if !path.exists() && bin.exists() && idx.exists() {
        // As Megatron names a pair.
        return looked_at(folder, &[bin], Some(Format::Megatron));
    }
    fs::metadata(path).map_err(Error::io(path))?;
    looked_at(folder, &[path.to_owned()], format)
}

/// A list in the folder, or in the folder of a format in it.
fn listed(path: &Path, format: Option<Format>) -> Result<Option<(PathBuf, List)>> {
    let here = path.join(LIST);
    if here.is_file() {
        let list = read_list(&here)?;
        let found = list.output.format;
        if format.is_some_and(|format| format != found) {
            return Err(damaged(path, format!("holds {} only", found.name())));
        }
        let name = path.canonicalize().map_err(Error::io(path))?;
        if name.file_name() != Some(found.name().as_ref()) {
            return Err(damaged(path, format!("must be named {}", found.name())));
        }
        let folder = name.parent().unwrap_or(Path::new("/")).to_owned();
        return Ok(Some((folder, list)));
    }
    let mut found: Vec<Format> = Format::ALL.to_vec();
    found.retain(|one| path.join(one.name()).join(LIST).is_file());
    if let Some(format) = format {
        found.retain(|one| *one == format);
    }
    match found.as_slice() {
        [] => Ok(None),
        [one] => {
            let list = read_list(&path.join(one.name()).join(LIST))?;
            Ok(Some((path.to_owned(), list)))
        }
        several => {
            let names: Vec<&str> = several.iter().map(|one| one.name()).collect();
            Err(damaged(
                path,
                format!("holds shards as {}: name one, --format", names.join(", ")),
            ))
        }
    }
}

fn read_list(path: &Path) -> Result<List> {
    let text = fs::read(path).map_err(Error::io(path))?;
    let list: List = serde_json::from_slice(&text)
        .map_err(|error| damaged(path, format!("is no list of shards: {error}")))?;
    if list.version != 1 {
        let version = list.version;
        return Err(damaged(
            path,
            format!("has version {version}, which is not known"),
        ));
    }
    for file in list.shards.iter().flat_map(|shard| &shard.files) {
        let inside = file
            .name
            .split('/')
            .all(|part| !matches!(part, "" | "." | ".."));
        if !inside || Path::new(&file.name).is_absolute() {
            return Err(damaged(
                path,
                format!("names a file outside of it, {:?}", file.name),
            ));
        }
    }
    Ok(list)
}

/// A list of files that came without one: each is a shard.
fn looked_at(
    folder: &Path,
    files: &[PathBuf],
    format: Option<Format>,
) -> Result<(PathBuf, List, bool)> {
    let mut shards = Vec::new();
    let mut found = format;
    for path in files {
        let Some(kind) = kind(path)? else { continue };
        // Ids and nothing else are of the format that the caller names.
        let kind = match (kind, format) {
            (Format::Nanogpt, Some(format @ (Format::Dolma | Format::Litdata))) => format,
            (kind, _) => kind,
        };
        if found.is_some_and(|found| found != kind) {
            if format.is_some() {
                continue;
            }
            return Err(damaged(
                folder,
                "holds files of several formats: name one, --format",
            ));
        }
        found = Some(kind);
        let name = path.file_name().and_then(|name| name.to_str());
        let Some(name) = name else {
            return Err(damaged(path, "has a name that is no text"));
        };
        let mut names = vec![name.to_owned()];
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        match kind {
            Format::Megatron => names.push(format!("{stem}.idx")),
            Format::Datatrove => names.push(format!("{name}.index")),
            _ => {}
        }
        let files = names.into_iter().map(|name| {
            let bytes = fs::metadata(folder.join(&name)).map_err(Error::io(&folder.join(&name)))?;
            Ok(Written {
                name,
                bytes: bytes.len(),
                xxh3: String::new(),
                items: 0,
                tokens: 0,
            })
        });
        let files: Result<Vec<Written>> = files.collect();
        shards.push(Shard {
            documents: 0,
            files: files?,
        });
    }
    let Some(format) = found else {
        return Err(damaged(folder, "holds no shards that are known"));
    };
    let width = match format {
        Format::Datatrove => datatrove_width(folder, &shards)?,
        Format::Litdata => litdata_width(folder)?,
        _ => Width::U16,
    };
    let output = Output {
        format,
        before: vec![],
        after: vec![],
        id_end: width.end(),
        width: Some(width),
        sequences: None,
        max_tokens: None,
        tokenizer: None,
    };
    let list = List {
        version: 1,
        output,
        width,
        documents: 0,
        tokens: 0,
        shards,
    };
    Ok((folder.to_owned(), list, false))
}

/// Of what format a file is, by its name and by what is in it.
fn kind(path: &Path) -> Result<Option<Format>> {
    let Some(extension) = path.extension().and_then(|extension| extension.to_str()) else {
        return Ok(None);
    };
    Ok(match extension {
        "bin" if path.with_extension("idx").exists() => Some(Format::Megatron),
        "bin" => {
            let mut file = super::window::Window::open(path)?;
            let magic = match file.size() {
                0..1024 => [0, 0],
                _ => [file.u32(0)?, file.u32(4)?],
            };
            let llmc = [Width::U16, Width::U32]
                .map(crate::write::llmc_magic)
                .contains(&magic);
            Some(if llmc { Format::Llmc } else { Format::Nanogpt })
        }
        "npy" => {
            let mut file = super::window::Window::open(path)?;
            let numpy = file.size() >= 6 && file.bytes(0, 6)? == b"\x93NUMPY";
            Some(if numpy { Format::Npy } else { Format::Dolma })
        }
        "ds" => Some(Format::Datatrove),
        "mds" => Some(Format::Mds),
        "parquet" => Some(Format::Parquet),
        "arrow" => Some(Format::Arrow),
        _ => None,
    })
}

/// How wide datatrove's ids are: its metadata says so; without, two bytes, unless there are twice as many.
fn datatrove_width(folder: &Path, shards: &[Shard]) -> Result<Width> {
    let Some([data, index]) = shards
        .first()
        .and_then(|shard| shard.files.first_chunk::<2>())
    else {
        return Ok(Width::U16);
    };
    let mut index = super::window::Window::open(&folder.join(&index.name))?;
    let tokens = match index.size() {
        0 => 0,
        size => index.u64(size - size % 8 - 8)?,
    };
    Ok(if tokens > 0 && tokens.checked_mul(4) == Some(data.bytes) {
        Width::U32
    } else {
        Width::U16
    })
}

/// How wide litdata's ids are: `index.json` has torch's number of their type.
fn litdata_width(folder: &Path) -> Result<Width> {
    let path = folder.join("index.json");
    let text = fs::read(&path).map_err(Error::io(&path))?;
    let index: serde_json::Value =
        serde_json::from_slice(&text).map_err(|error| damaged(&path, error.to_string()))?;
    match index["config"]["data_format"][0].as_str() {
        Some("no_header_tensor:20") => Ok(Width::U16),
        Some("no_header_tensor:16") => Ok(Width::I32),
        other => Err(damaged(
            &path,
            format!("says that items are {other:?}, not ids"),
        )),
    }
}

/// Open one shard of a list.
pub(super) fn shard(known: &Known, number: usize) -> Result<Box<dyn Documents>> {
    let (folder, list) = (known.folder.as_path(), &known.list);
    let Some(shard) = list.shards.get(number) else {
        return Err(damaged(folder, format!("has no shard {number}")));
    };
    let format = list.output.format;
    let (data, beside) = match format {
        Format::Megatron => (".bin", ".idx"),
        Format::Llmc | Format::Nanogpt => (".bin", ".ends.npy"),
        Format::Npy | Format::Dolma => (".npy", ".ends.npy"),
        Format::Datatrove => (".ds", ".index"),
        Format::Mds => (".mds", ".ends.npy"),
        Format::Litdata => (".bin", ".ends.npy"),
        Format::Parquet => (".parquet", ".ends.npy"),
        Format::Arrow => (".arrow", ".ends.npy"),
    };
    let is_data = |name: &str| {
        name.ends_with(data) && !name.ends_with(".ends.npy") && !name.ends_with(".documents.npy")
    };
    let names: Vec<&str> = shard.files.iter().map(|file| file.name.as_str()).collect();
    let sides = |name: &str, extension: &str| {
        let wanted = match format {
            Format::Datatrove => format!("{name}{extension}"),
            _ => format!("{}{extension}", name.strip_suffix(data).unwrap_or(name)),
        };
        names
            .contains(&wanted.as_str())
            .then(|| folder.join(wanted))
    };
    let files: Vec<(PathBuf, Option<PathBuf>, Option<PathBuf>)> = names
        .iter()
        .filter(|name| is_data(name))
        .map(|name| {
            (
                folder.join(name),
                sides(name, beside),
                sides(name, ".documents.npy"),
            )
        })
        .collect();
    let documents: Box<dyn Documents> = match format {
        Format::Megatron => match files.as_slice() {
            [(bin, Some(idx), _)] => Box::new(Megatron::open(bin, idx)?),
            _ => {
                return Err(damaged(
                    folder,
                    format!("shard {number} is no pair of .bin and .idx"),
                ));
            }
        },
        Format::Llmc | Format::Nanogpt | Format::Dolma | Format::Datatrove => {
            let width = (format != Format::Llmc).then_some(list.width);
            let files = files
                .iter()
                .map(|(file, ends, _)| (file.as_path(), ends.as_deref()));
            Box::new(Flat::open(format, files, width)?)
        }
        _ => of_items(list, shard.documents, files)?,
    };
    if known.listed && shard.documents != documents.len() {
        return Err(damaged(
            &folder.join(names.first().unwrap_or(&"")),
            format!(
                "has {} documents, and {} are listed",
                documents.len(),
                shard.documents
            ),
        ));
    }
    Ok(documents)
}

fn of_items(
    list: &List,
    documents: u64,
    files: Vec<(PathBuf, Option<PathBuf>, Option<PathBuf>)>,
) -> Result<Box<dyn Documents>> {
    let open = |path: &Path| -> Result<Box<dyn Items>> {
        Ok(match list.output.format {
            Format::Npy => Box::new(Npy::open(path)?),
            Format::Parquet => Box::new(Table::parquet(path)?),
            Format::Arrow => Box::new(Table::arrow(path)?),
            format => Box::new(Chunk::open(path, format, Some(list.width))?),
        })
    };
    let Some(sequences) = &list.output.sequences else {
        let items: Result<Vec<Box<dyn Items>>> = files.iter().map(|file| open(&file.0)).collect();
        return Ok(Box::new(Whole::new(items?)));
    };
    let mut opened = Vec::new();
    for (path, ends, of) in &files {
        let (Some(ends), Some(of)) = (ends, of) else {
            return Err(damaged(
                path,
                "has no .ends.npy or no .documents.npy beside it",
            ));
        };
        opened.push((open(path)?, ends.as_path(), of.as_path()));
    }
    Ok(Box::new(Pieces::open(opened, sequences.length, documents)?))
}
