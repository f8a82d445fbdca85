//! What is made when all shards are there: the list of them, `shards.json`, and the `index.json` of the
//! formats that have one. Written last, aside and renamed, so that its being there says that all is.
//!
//! Invariant: it follows from the output and the shards' reports; the shards are not read.
//! Tested by the readers of every format.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use xxhash_rust::xxh3::Xxh3Default;

use super::aside::Place;
use super::chunks::{LITDATA_LIMIT, mds_config, spaced};
use super::{ASIDE, Format, Output, Width, width};
use crate::{Error, Result, Written};

/// The name of the list of shards, in the folder of every format.
pub const LIST: &str = "shards.json";

/// The list of a format's shards: all that is needed to read them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct List {
    /// The version of this list.
    pub version: u32,
    /// What was written.
    pub output: Output,
    /// How wide an id is.
    pub width: Width,
    /// Documents in all shards.
    pub documents: u64,
    /// Ids in all shards, those that only fill included.
    pub tokens: u64,
    /// The shards in their order, with the files of this format.
    pub shards: Vec<Shard>,
}

/// One shard of a list.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Shard {
    /// Its documents.
    pub documents: u64,
    /// Its files.
    pub files: Vec<Written>,
}

/// Make what stands beside the shards of an output, from the number of documents and the files of each, in
/// the order of the shards and in the order in which the writer gave its files.
/// Files of other outputs are passed over.
pub fn finish_output(
    folder: &Path,
    output: &Output,
    shards: impl IntoIterator<Item = (u64, Vec<Written>)>,
) -> Result<Vec<Written>> {
    let width = width(output)?;
    let prefix = format!("{}/", output.format.name());
    let mut list = List {
        version: 1,
        output: output.clone(),
        width,
        documents: 0,
        tokens: 0,
        shards: Vec::new(),
    };
    for (documents, mut files) in shards {
        files.retain(|file| file.name.starts_with(&prefix));
        list.documents += documents;
        list.tokens += files.iter().map(|file| file.tokens).sum::<u64>();
        list.shards.push(Shard { documents, files });
    }
    let mut written = Vec::new();
    let index = match output.format {
        Format::Mds => Some(mds_index(&list)),
        Format::Litdata => Some(litdata_index(&list)),
        _ => None,
    };
    if let Some(index) = index {
        let index = spaced(index.to_string().as_bytes());
        written.push(put(folder, output.format, "index.json", &index)?);
    }
    let list = serde_json::to_vec(&list).map_err(|error| Error::Refused(error.to_string()))?;
    written.push(put(folder, output.format, LIST, &list)?);
    Ok(written)
}

/// A small file that is there whole or not at all.
fn put(folder: &Path, format: Format, name: &str, bytes: &[u8]) -> Result<Written> {
    let mut file = Place::new(folder, format.name(), name)?.create(name)?;
    file.write(bytes)?;
    let written = file.finish(0, 0)?;
    let path = folder.join(format.name());
    let (aside, whole) = (path.join(format!("{name}{ASIDE}")), path.join(name));
    fs::rename(&aside, &whole).map_err(Error::io(&whole))?;
    // Without it a power cut may take the name back.
    #[cfg(unix)]
    fs::File::open(&path)
        .and_then(|folder| folder.sync_all())
        .map_err(Error::io(&path))?;
    Ok(written)
}

/// The files that hold items, by their own names.
fn items(list: &List) -> impl Iterator<Item = (&str, &Written)> {
    let extension = match list.output.format {
        Format::Mds => ".mds",
        _ => ".bin",
    };
    list.shards
        .iter()
        .flat_map(|shard| &shard.files)
        .filter_map(move |file| {
            let name = file.name.rsplit('/').next().unwrap_or(&file.name);
            name.ends_with(extension).then_some((name, file))
        })
}

fn mds_index(list: &List) -> Value {
    let shards: Vec<Value> = items(list)
        .map(|(name, file)| {
            let mut shard = mds_config(&list.output, list.width);
            shard["raw_data"] = json!({"basename": name, "bytes": file.bytes, "hashes": {}});
            shard["samples"] = json!(file.items);
            shard["zip_data"] = Value::Null;
            shard
        })
        .collect();
    json!({"shards": shards, "version": 2})
}

fn litdata_index(list: &List) -> Value {
    let mut hash = Xxh3Default::new();
    let chunks: Vec<Value> = items(list)
        .map(|(name, file)| {
            hash.update(file.xxh3.as_bytes());
            json!({
                "chunk_bytes": file.bytes,
                "chunk_size": file.items,
                "dim": file.tokens,
                "filename": name,
            })
        })
        .collect();
    // torch's numbers for its types.
    let dtype = match list.width {
        Width::U8 => 0,
        Width::U16 => 20,
        Width::U32 | Width::I32 => 16,
    };
    json!({
        "chunks": chunks,
        "config": {
            "chunk_bytes": LITDATA_LIMIT,
            "chunk_size": null,
            "compression": null,
            "compression_batch_size": null,
            "compression_level": null,
            "data_format": [format!("no_header_tensor:{dtype}")],
            "data_spec": "[1, {\"type\": null, \"context\": null, \"children_spec\": []}]",
            "encryption": null,
            "ipc_compression": null,
            "item_loader": "TokensLoader",
            "types": "tensor",
        },
        // Readers keep copies of chunks by it: it changes when the chunks do, and only then.
        "updated_at": (hash.digest() >> 12).to_string(),
    })
}
