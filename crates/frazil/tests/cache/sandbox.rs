//! A sandbox that forbids `membarrier`, as containers may.

/// Makes the system refuse `membarrier` to all threads of this process, and to every program that
/// it becomes or starts.
///
/// # Errors
///
/// The system takes no filter, or still allows the call.
pub(crate) fn forbid_membarrier() -> Result<(), String> {
    let load = |at| libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: at };
    let is = |number, yes, no| libc::sock_filter { code: 0x15, jt: yes, jf: no, k: number };
    let answer = |with| libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: with };
    let mut filter = [
        // The number of the call.
        load(0),
        is(libc::SYS_membarrier as u32, 0, 1),
        answer(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        answer(libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: all three read their arguments, which live until they return.
    let outcomes = unsafe {
        [
            i64::from(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)),
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                libc::SECCOMP_FILTER_FLAG_TSYNC,
                &raw const program,
            ),
            libc::syscall(libc::SYS_membarrier, 0, 0, 0),
        ]
    };
    if outcomes == [0, 0, -1] {
        Ok(())
    } else {
        Err(format!("prctl, seccomp and membarrier answered {outcomes:?}, not [0, 0, -1]"))
    }
}
