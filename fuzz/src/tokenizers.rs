//! The tokenizers that `encode`, `decode` and `stream` choose from, each built when it is first asked for.

use std::sync::{Arc, LazyLock};

use gristmill::stream::TokenTexts;
use gristmill::{Options, Tokenizer};

/// A tokenizer and what can be said of it.
pub struct Fuzzed {
    /// The tokenizer.
    pub tokenizer: Arc<Tokenizer>,
    /// Its tokens are bytes and every text comes back as it was.
    pub lossless: bool,
    /// What its streams share.
    pub texts: LazyLock<Arc<TokenTexts>, Box<dyn FnOnce() -> Arc<TokenTexts> + Send>>,
}

fn fuzzed(tokenizer: Tokenizer, lossless: bool) -> Fuzzed {
    let tokenizer = Arc::new(tokenizer);
    let streamed = Arc::clone(&tokenizer);
    Fuzzed {
        tokenizer,
        lossless,
        texts: LazyLock::new(Box::new(|| {
            TokenTexts::new(streamed).expect("its tokens have texts")
        })),
    }
}

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

macro_rules! seed {
    ($name:literal) => {
        include_bytes!(concat!("../seeds/load/", $name))
    };
}

fn embedded(name: &str) -> Fuzzed {
    fuzzed(
        Tokenizer::embedded(name).expect("an embedded tokenizer loads"),
        true,
    )
}

fn loaded(file: &[u8], options: &Options, lossless: bool) -> Fuzzed {
    let tokenizer = Tokenizer::from_bytes(file, options).expect("a seed loads");
    fuzzed(tokenizer, lossless)
}

fn lossless(file: &[u8]) -> Fuzzed {
    loaded(file, &Options::default(), true)
}

fn lossy(file: &[u8]) -> Fuzzed {
    loaded(file, &Options::default(), false)
}

fn ranks(file: &[u8]) -> Fuzzed {
    let special = [("<s>".to_owned(), 1000), ("<|endoftext|>".to_owned(), 1001)];
    let options = Options::default()
        .pattern(GPT2)
        .special_tokens(special.into());
    loaded(file, &options, true)
}

static TOKENIZERS: [LazyLock<Fuzzed>; 18] = [
    LazyLock::new(|| embedded("gpt2")),
    LazyLock::new(|| embedded("cl100k_base")),
    LazyLock::new(|| embedded("o200k_base")),
    LazyLock::new(|| ranks(seed!("no_options.tiktoken"))),
    LazyLock::new(|| lossless(seed!("byte_level.json"))),
    LazyLock::new(|| lossy(seed!("byte_level_split.json"))),
    LazyLock::new(|| lossy(seed!("byte_level_prefix.json"))),
    LazyLock::new(|| lossy(seed!("byte_fallback.json"))),
    LazyLock::new(|| lossy(seed!("normalizers.json"))),
    LazyLock::new(|| lossy(seed!("metaspace.json"))),
    LazyLock::new(|| lossy(seed!("bert.json"))),
    LazyLock::new(|| lossy(seed!("suffix.json"))),
    LazyLock::new(|| lossy(seed!("splits.json"))),
    LazyLock::new(|| lossy(seed!("plain.model"))),
    LazyLock::new(|| lossy(seed!("rules.model"))),
    LazyLock::new(|| lossy(seed!("bytes.model"))),
    LazyLock::new(|| lossy(seed!("suffix.model"))),
    LazyLock::new(|| lossy(seed!("byte_level_normalizer.json"))),
];

/// One of the tokenizers; any byte chooses one.
pub fn tokenizer(choice: u8) -> &'static Fuzzed {
    &TOKENIZERS[choice as usize % TOKENIZERS.len()]
}
