//! The rights of a connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use super::checks::{RIGHT, Source, WAITS};
use super::{Access, NAME_BYTES_MAX, PASSWORD_BYTES_MAX, User};
use crate::worker::Turn;

/// The user of a connection, and the verification it waits for.
#[derive(Debug)]
pub(crate) struct Pass {
    /// It has all rights: nothing else is checked.
    is_free: bool,
    /// `None`: the server has no users, or the client has not logged in.
    user: Option<Arc<User>>,
    check: Option<Box<Check>>,
    /// A password of this connection was wrong.
    has_failed: bool,
}

#[derive(Debug)]
struct Check {
    verdict: Arc<AtomicU8>,
    user: Option<Arc<User>>,
}

/// The outcome of a log-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    Right,
    Wrong,
    /// Serve the same request again when [`Pass::waits`] is false.
    Waits,
    /// The queue of passwords is full.
    Refused,
}

impl Pass {
    /// The pass of a new connection.
    pub(crate) fn new(access: Option<&Access>) -> Pass {
        let mut pass = Pass { is_free: access.is_none(), ..Pass::nobody() };
        pass.take_user(access.and_then(Access::anybody));
        pass
    }

    fn take_user(&mut self, user: Option<Arc<User>>) {
        self.is_free |= user.as_ref().is_some_and(|user| user.is_free());
        self.user = user;
    }

    /// A pass without rights, where users are not those of [`Access`].
    pub(crate) fn nobody() -> Pass {
        Pass { is_free: false, user: None, check: None, has_failed: false }
    }

    /// A pass with all rights, without a user of a file.
    pub(crate) fn free() -> Pass {
        Pass { is_free: true, ..Pass::nobody() }
    }

    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        self.is_free
    }

    /// Whether it may do anything other than log in.
    pub(crate) fn is_known(&self) -> bool {
        self.is_free || self.user.is_some()
    }

    pub(crate) fn user(&self) -> Option<&User> {
        self.user.as_deref()
    }

    /// The name of its user; `default` on a server without users.
    pub(crate) fn name(&self) -> &str {
        self.user.as_ref().map_or(super::DEFAULT, |user| &user.name)
    }

    /// Whether it has all these classes.
    pub(crate) fn may(&self, classes: u8) -> bool {
        self.is_free || self.user.as_ref().is_some_and(|user| user.may(classes))
    }

    pub(crate) fn may_use(&self, key: &[u8]) -> bool {
        self.is_free || self.user.as_ref().is_some_and(|user| user.may_use(key))
    }

    /// Whether it may use every key.
    pub(crate) fn may_use_all(&self) -> bool {
        self.is_free || self.user.as_ref().is_some_and(|user| !user.has_prefixes())
    }

    /// Whether its user was changed or removed, so that the connection must be closed.
    #[inline]
    pub(crate) fn is_revoked(&self) -> bool {
        self.user.as_ref().is_some_and(|user| user.is_revoked.load(Relaxed))
    }

    /// Whether a password is being verified. Until then nothing is served.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        self.check.as_ref().is_some_and(|check| check.verdict.load(Relaxed) == WAITS)
    }

    /// Logs in with a name and a password. An unknown password is queued for verification, and the same request
    /// served again after it.
    pub(crate) fn attempt(
        &mut self,
        access: &Access,
        name: &[u8],
        password: &[u8],
        turn: &Turn<'_>,
    ) -> Attempt {
        if let Some(check) = self.check.take() {
            let is_right = check.verdict.load(Relaxed) == RIGHT;
            return self.end(is_right, check.user);
        }
        if name.len() > NAME_BYTES_MAX || password.len() > PASSWORD_BYTES_MAX {
            return Attempt::Wrong;
        }
        let user = access.users.read().get(name).cloned();
        if user.as_ref().is_some_and(|user| !user.needs_password()) {
            return self.end(true, user);
        }
        let digest = access.checks.digest(name, password);
        if user.as_ref().is_some_and(|user| user.verified.get() == Some(&digest)) {
            return self.end(true, user);
        }
        let source = Source { address: turn.peer, has_failed: self.has_failed };
        let place = turn.waits.place;
        match access.checks.order((digest, password), user.as_ref(), place, source) {
            Some(verdict) => {
                self.check = Some(Box::new(Check { verdict, user }));
                Attempt::Waits
            }
            None => Attempt::Refused,
        }
    }

    fn end(&mut self, is_right: bool, user: Option<Arc<User>>) -> Attempt {
        match user.filter(|_| is_right) {
            Some(user) => {
                self.is_free = false;
                self.take_user(Some(user));
                Attempt::Right
            }
            None => {
                self.has_failed = true;
                Attempt::Wrong
            }
        }
    }
}
