//! Recordings of requests.

use frazil_recording::{Decoder, Operation};
use frazil_server::Recordable;

use super::origin::{TestOrigin, client};

#[test]
fn requests_are_recorded_by_url() {
    let origin = TestOrigin::with(|got| {
        let fields = "Cache-Control: max-age=60\r\n".to_owned();
        (200, fields, got.line.clone().into_bytes())
    });
    let server = origin.server(|_| {});
    let mut client = client(&server);
    let path = std::env::temp_dir().join(format!("frazil-server-http-{}", std::process::id()));
    let recording = server.handle().record(Recordable::Http, &path, 1.0).unwrap();
    for url in ["/a", "/b", "/a", "/a"] {
        client.get(url);
    }
    assert_eq!(recording.finish().unwrap().lost, 0);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let (mut decoder, mut records, mut at) = (Decoder::default(), Vec::new(), 0);
    while at < bytes.len() {
        at += decoder.decode(&bytes[at..], &mut records).unwrap();
    }
    // A miss has the size of the response stored after it.
    let is_get = |operation| operation == Operation::Get;
    assert!(records.iter().all(|it| is_get(it.operation) && it.size > Some(128)), "{records:?}");
    let ids: Vec<u64> = records.iter().map(|record| record.id).collect();
    assert!(ids.len() == 4 && ids[0] != ids[1] && ids[2..] == [ids[0]; 2], "{records:?}");
    assert_eq!(records[0].size, records[2].size);
    assert_eq!(decoder.end().and_then(|end| end.gets), Some(4));
}
