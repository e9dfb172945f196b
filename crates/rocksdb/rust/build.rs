//! Compiles the block cache with the headers of the linked RocksDB.

use std::path::PathBuf;

fn main() {
    let sources = std::env::var_os("DEP_ROCKSDB_CARGO_MANIFEST_DIR");
    let sources = PathBuf::from(sources.expect("librocksdb-sys says where it is"));
    println!("cargo:rerun-if-changed=../cpp");
    println!("cargo:rerun-if-changed=../include");
    cc::Build::new()
        .cpp(true)
        .std("c++20")
        // As librocksdb-sys compiles RocksDB.
        .flag("-fno-rtti")
        .define("NDEBUG", None)
        .include("../include")
        .flag(format!("-isystem{}", sources.join("rocksdb/include").display()))
        .files(["../cpp/block_cache.cc", "../cpp/register.cc"])
        .compile("frazil_block_cache");
}
