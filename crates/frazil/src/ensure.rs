//! Work that is done in any case, even if user code panics.

/// An action that runs when this is dropped, also by a panic of user code, unless it is waived
/// before.
pub(crate) struct Ensure<'a, T, F: FnOnce(&mut T)> {
    pub(crate) on: &'a mut T,
    act: Option<F>,
}

impl<'a, T, F: FnOnce(&mut T)> Ensure<'a, T, F> {
    pub(crate) fn new(on: &'a mut T, act: F) -> Self {
        Ensure { on, act: Some(act) }
    }

    #[inline(always)]
    pub(crate) fn waive(mut self) {
        self.act = None;
    }
}

impl<T, F: FnOnce(&mut T)> Drop for Ensure<'_, T, F> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(act) = self.act.take() {
            act(self.on);
        }
    }
}
