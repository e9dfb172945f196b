//! Every reader of traces, with each compression: the first byte chooses the format, or its
//! detection, and the reader's options. The records are written and read again.

use std::path::PathBuf;

use frazil_simulator::trace::{
    CsvLayout, Format, LatencyUnit, Lifetimes, ReadOptions, SampleBounds, load_sample, read, write,
};

use crate::write_anew;

/// Records after which reading stops: a compressed file may hold more than a test may take.
const MOST: u64 = 4_096;

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("frazil-fuzz-{}-{name}", std::process::id()))
}

/// Reads an input; panics if a reader breaks a promise.
///
/// # Panics
///
/// If a promise is broken.
pub fn feed(input: &[u8]) {
    let Some((choice, content)) = input.split_first() else { return };
    let path = file("trace");
    write_anew(&path, content);
    let format = Format::ALL.get(usize::from(choice & 15)).copied();
    let columns = CsvLayout {
        separator: Some(b'\t'),
        header: Some(choice & 128 != 0),
        time: Some(2.into()),
        id: Some(1.into()),
        size: Some(4.into()),
        operation: Some(5.into()),
        latency: Some(3.into()),
        lifetime: Some(6.into()),
        ..CsvLayout::default()
    };
    let options = ReadOptions {
        format,
        csv: if choice & 64 != 0 { columns } else { CsvLayout::default() },
        limit: Some(MOST),
        times: choice & 16 != 0,
        latencies: (choice & 32 != 0).then_some(LatencyUnit::Time),
        lifetimes: if choice & 48 == 48 { Lifetimes::OfTrace } else { Lifetimes::Ignored },
        ..ReadOptions::default()
    };
    let Ok(loaded) = read(&path, &options) else { return };
    let bounds = SampleBounds { rate: 0.5, objects: 64, records: 1_024 };
    let spec = path.to_str().expect("a path of letters");
    if let Ok(sample) = load_sample(spec, &options, bounds) {
        assert!(sample.trace.objects.len() <= 64 && sample.trace.len() <= 1_024);
    }
    let copy = file("copy");
    let mut written = std::fs::File::create(&copy).expect("a temporary file");
    if write(&loaded.trace, None, Format::Frazil, &mut written).is_ok() {
        drop(written);
        let options = ReadOptions { format: Some(Format::Frazil), latencies: None, ..options };
        let again = read(&copy, &options).expect("what was written can be read");
        assert_eq!(again.trace.ids, loaded.trace.ids);
    }
}
