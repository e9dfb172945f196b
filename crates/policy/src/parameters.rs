//! The parameters after a policy's name: repeated `:key=value`.

use std::fmt;
use std::str::FromStr;

use crate::SpecError;

/// The parameters after a policy's name, taken one by one.
pub(crate) struct Parameters<'a> {
    pub(crate) policy: &'a str,
    /// `key=value` as given, until it is taken.
    given: Vec<&'a str>,
    /// The policy's parameters, in words.
    known: Vec<String>,
}

impl<'a> Parameters<'a> {
    pub(crate) fn of(text: &'a str) -> Self {
        let mut parts = text.split(':');
        let policy = parts.next().unwrap_or_default();
        Parameters { policy, given: parts.collect(), known: Vec::new() }
    }

    /// Takes the number `key`, `default` if it is not given.
    pub(crate) fn number<N>(
        &mut self,
        key: &str,
        default: N,
        least: N,
        most: N,
    ) -> Result<N, SpecError>
    where
        N: FromStr + PartialOrd + fmt::Display + Copy,
    {
        self.known.push(format!("{key} from {least} to {most}"));
        let named = |parameter: &&str| parameter.split('=').next() == Some(key);
        let Some(place) = self.given.iter().position(named) else {
            return Ok(default);
        };
        let parameter = self.given.remove(place);
        let value = parameter.split_once('=').and_then(|(_, value)| value.parse().ok());
        match value {
            Some(value) if least <= value && value <= most => Ok(value),
            _ => Err(self.refuse(parameter)),
        }
    }

    /// Takes the value `key`, `default` if it is not given. `known` lists the allowed values.
    pub(crate) fn value<V: FromStr>(
        &mut self,
        key: &str,
        default: V,
        known: &str,
    ) -> Result<V, SpecError> {
        self.known.push(known.to_owned());
        let named = |parameter: &&str| parameter.split('=').next() == Some(key);
        let Some(place) = self.given.iter().position(named) else {
            return Ok(default);
        };
        let parameter = self.given.remove(place);
        let value = parameter.split_once('=').and_then(|(_, value)| value.parse().ok());
        value.ok_or_else(|| self.refuse(parameter))
    }

    fn refuse(&self, parameter: &str) -> SpecError {
        SpecError::BadValue {
            policy: self.policy.to_owned(),
            parameter: parameter.to_owned(),
            expected: format!("it takes {}", self.known.join(", ")),
        }
    }

    /// Takes the word `key`, one of `known`. Returns its index in `known`, `default` if it is not
    /// given.
    pub(crate) fn word(
        &mut self,
        key: &str,
        default: usize,
        known: &[&str],
    ) -> Result<usize, SpecError> {
        self.known.push(format!("{key}={}", known.join("|")));
        let named = |parameter: &&str| parameter.split('=').next() == Some(key);
        let Some(place) = self.given.iter().position(named) else {
            return Ok(default);
        };
        let parameter = self.given.remove(place);
        let word = parameter.split_once('=').map_or("", |(_, word)| word);
        known.iter().position(|&one| one == word).ok_or_else(|| self.refuse(parameter))
    }

    /// No parameter may remain, not even one given twice.
    pub(crate) fn finish(self) -> Result<(), SpecError> {
        let Some(parameter) = self.given.first() else {
            return Ok(());
        };
        Err(SpecError::UnknownParameter {
            policy: self.policy.to_owned(),
            parameter: (*parameter).to_owned(),
            expected: match self.known.as_slice() {
                [] => "none".to_owned(),
                known => known.join(", "),
            },
        })
    }
}
