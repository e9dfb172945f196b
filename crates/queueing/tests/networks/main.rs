//! Compares networks with equations, chains and published figures.

mod equations;
mod large;
mod markov;
mod profile;
mod published;
mod simulation;
