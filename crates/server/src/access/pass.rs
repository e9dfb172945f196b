//! What a connection may do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use super::checks::{RIGHT, WAITS};
use super::{Access, NAME_BYTES_MAX, PASSWORD_BYTES_MAX, User};
use crate::mail::Place;

/// Whose rights a connection has, and a password that is being verified for it.
#[derive(Debug)]
pub(crate) struct Pass {
    /// It may do everything: nothing else is looked at.
    is_free: bool,
    /// `None`: there are no users, or nobody yet.
    user: Option<Arc<User>>,
    check: Option<Box<Check>>,
}

#[derive(Debug)]
struct Check {
    verdict: Arc<AtomicU8>,
    user: Option<Arc<User>>,
}

/// What became of a name and a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    Right,
    Wrong,
    /// The same request is to be served again when [`Pass::waits`] is false.
    Waits,
    /// Too many passwords are being verified.
    Refused,
}

impl Pass {
    /// What a connection has that has not said who it is.
    pub(crate) fn new(access: Option<&Access>) -> Pass {
        let mut pass = Pass { is_free: access.is_none(), user: None, check: None };
        pass.take_user(access.and_then(Access::anybody));
        pass
    }

    fn take_user(&mut self, user: Option<Arc<User>>) {
        self.is_free |= user.as_ref().is_some_and(|user| user.is_free());
        self.user = user;
    }

    /// Nothing, where users are not those of [`Access`].
    pub(crate) fn nobody() -> Pass {
        Pass { is_free: false, user: None, check: None }
    }

    /// Everything, without a user of a file.
    pub(crate) fn free() -> Pass {
        Pass { is_free: true, user: None, check: None }
    }

    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        self.is_free
    }

    /// Whether it may do anything but say who it is.
    pub(crate) fn is_known(&self) -> bool {
        self.is_free || self.user.is_some()
    }

    pub(crate) fn user(&self) -> Option<&User> {
        self.user.as_deref()
    }

    /// The name of its user, which is `default` where there are no users.
    pub(crate) fn name(&self) -> &str {
        self.user.as_ref().map_or(super::DEFAULT, |user| &user.name)
    }

    /// Whether it has all of some classes.
    pub(crate) fn may(&self, classes: u8) -> bool {
        self.is_free || self.user.as_ref().is_some_and(|user| user.may(classes))
    }

    pub(crate) fn may_use(&self, key: &[u8]) -> bool {
        self.is_free || self.user.as_ref().is_some_and(|user| user.may_use(key))
    }

    /// Whether it may use all keys there are.
    pub(crate) fn may_use_all(&self) -> bool {
        self.is_free || self.user.as_ref().is_some_and(|user| !user.has_prefixes())
    }

    /// Whether its user is not as it was any more, so the connection is to be closed.
    #[inline]
    pub(crate) fn is_revoked(&self) -> bool {
        self.user.as_ref().is_some_and(|user| user.is_revoked.load(Relaxed))
    }

    /// Whether nothing is to be served before a password is verified.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        self.check.as_ref().is_some_and(|check| check.verdict.load(Relaxed) == WAITS)
    }

    /// Tries a name and a password. Where that takes long it is done elsewhere; then the same request is tried again.
    pub(crate) fn attempt(
        &mut self,
        access: &Access,
        name: &[u8],
        password: &[u8],
        place: Place,
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
        match access.checks.order(digest, user.as_ref(), password, place) {
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
            None => Attempt::Wrong,
        }
    }
}
