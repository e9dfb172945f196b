//! Permitted differences between frazil and another server, with reasons.

/// Replies that may differ.
pub(super) struct Difference {
    /// Beginning of our reply.
    ours: &'static str,
    theirs: &'static str,
    /// Later replies cannot be compared, because the servers now have different entries or one has closed the connection.
    pub(super) parts: bool,
    /// The reason, for readers of the table.
    #[expect(dead_code, reason = "the table is where it is told")]
    why: &'static str,
}

impl Difference {
    pub(super) fn is(&self, ours: &str, theirs: &str) -> bool {
        ours.starts_with(self.ours) && theirs.starts_with(self.theirs)
    }
}

pub(super) const MEMCACHED: &[Difference] = &[
    Difference {
        ours: "CLIENT_ERROR error decoding key",
        theirs: "",
        parts: true,
        why: "memcached passes over what is no base 64, and may be quiet then",
    },
    Difference {
        ours: "CLIENT_ERROR invalid or duplicate flag",
        theirs: "NF",
        parts: true,
        why: "a key that is no base 64: md and ma answer with this",
    },
    Difference {
        ours: "CLIENT_ERROR invalid or duplicate flag",
        theirs: "HD",
        parts: true,
        why: "the same",
    },
    Difference {
        ours: "CLIENT_ERROR invalid or duplicate flag",
        theirs: "CLIENT_ERROR invalid mode for ma M token",
        parts: true,
        why: "the same",
    },
];

pub(super) const VALKEY: &[Difference] = &[
    Difference {
        ours: "-ERR string exceeds maximum allowed size (an item",
        theirs: "",
        parts: true,
        why: "a value has at most 1 MiB",
    },
    Difference {
        ours: "",
        theirs: "-ERR Protocol error: invalid CRLF",
        parts: true,
        why: "Redis does not look at the two bytes behind an argument, Valkey does since 9.0",
    },
    Difference {
        ours: "-ERR Protocol error: unbalanced quotes",
        theirs: "",
        parts: true,
        why: "Valkey takes what follows a quote, Redis does not",
    },
    Difference {
        ours: "-ERR Protocol error",
        theirs: "-ERR Protocol error",
        parts: true,
        why: "a byte is shown in another way",
    },
    Difference {
        ours: "-ERR",
        theirs: "-ERR Command 'multi' not allowed",
        parts: false,
        why: "Redis' text",
    },
    Difference {
        ours: "-ERR",
        theirs: "-ERR Command 'watch' not allowed",
        parts: false,
        why: "Redis' text",
    },
    Difference {
        ours: "-ERR value is not an integer",
        theirs: "-ERR value is out of range, value must",
        parts: false,
        why: "Redis' text",
    },
    Difference { ours: "-ERR DB index", theirs: "+OK", parts: true, why: "there is one database" },
    Difference {
        ours: "-ERR DB index",
        theirs: "-ERR value is out of range",
        parts: false,
        why: "there is one database",
    },
    Difference {
        ours: "-ERR syntax error",
        theirs: ":",
        parts: false,
        why: "BITCOUNT with a begin alone is of Valkey 8.1",
    },
    Difference {
        ours: "-ERR syntax error",
        theirs: "-ERR value is not an integer",
        parts: false,
        why: "the same",
    },
    Difference {
        ours: "*",
        theirs: "-EXECABORT Transaction discarded because of previous",
        parts: true,
        why: "MULTI and WATCH in a transaction break it in Valkey, and not in Redis",
    },
    Difference {
        ours: "-ERR syntax error",
        theirs: "$",
        parts: true,
        why: "GETEX takes PERSIST once",
    },
    Difference {
        ours: "-ERR unknown command",
        theirs: "-ERR unknown command",
        parts: false,
        why: "bytes that are no text are shown in another way",
    },
    Difference {
        ours: "*",
        theirs: "*-1",
        parts: true,
        why: "WATCH does not notice a key that was absent, created and deleted",
    },
    Difference {
        ours: "-ERR Protocol error: expected",
        theirs: "(nothing)",
        parts: true,
        why: "ours says so before the line has ended",
    },
    Difference {
        ours: "-ERR unknown command",
        theirs: "",
        parts: true,
        why: "Valkey has more commands",
    },
    Difference {
        ours: "*-1",
        theirs: "*",
        parts: true,
        why: "WATCH counts a write of the same value",
    },
];
