//! frazil
fn main(){}
