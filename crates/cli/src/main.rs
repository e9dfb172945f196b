//! The `frazil` command: see the library.

fn main() {
    frazil_cli::main();
}
