//! One claim, and the abilities that a store needs for it.

use crate::stage::Stage;

/// One claim about a store.
pub(super) struct Case {
    /// The claim: the name of its function.
    pub(super) name: &'static str,
    /// The ability that a store needs for the case, if any.
    pub(super) need: Option<Need>,
    /// True if the case waits for real time to pass. It then runs beside the others of its area.
    pub(super) slow: bool,
    /// Fails if the claim is wrong.
    pub(super) run: fn(&Stage<'_>),
}

/// An ability that only some stores have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// Waiters are served strictly in the order in which they came.
    StrictOrder,
    /// Other processes meet in the store, so it outlives them.
    CrossProcess,
    /// Leases can outlive the session that took them.
    Leases,
    /// A request may say how many can hold a resource at once.
    Slots,
    /// The store keeps rows above the locks.
    Records,
}

impl Need {
    pub(super) const ALL: [Need; 5] = [
        Need::StrictOrder,
        Need::CrossProcess,
        Need::Leases,
        Need::Slots,
        Need::Records,
    ];

    pub(super) fn is_met(self, stage: &Stage<'_>) -> bool {
        match self {
            Need::StrictOrder => stage.capabilities().strict_order,
            Need::CrossProcess => stage.capabilities().cross_process,
            Need::Leases => stage.keeper().keeps_leases(),
            Need::Slots => stage.capabilities().slots,
            Need::Records => tenure::internal::store(stage.keeper()).records().is_some(),
        }
    }

    pub(super) fn why(self) -> &'static str {
        match self {
            Need::StrictOrder => "does not promise a strict order of waiters",
            Need::CrossProcess => "ends with its process",
            Need::Leases => "has no leases of their own",
            Need::Slots => "counts no slots",
            Need::Records => "keeps no records",
        }
    }
}

/// Makes a case named after its function, with the ability that a store needs.
macro_rules! case {
    ($name:ident) => {
        $crate::conformance::case::case!(@ $name, None, false)
    };
    ($name:ident, $need:ident) => {
        $crate::conformance::case::case!(
            @ $name, Some($crate::conformance::case::Need::$need), false
        )
    };
    (slow $name:ident, $need:ident) => {
        $crate::conformance::case::case!(
            @ $name, Some($crate::conformance::case::Need::$need), true
        )
    };
    (@ $name:ident, $need:expr, $slow:literal) => {
        $crate::conformance::case::Case {
            name: stringify!($name),
            need: $need,
            slow: $slow,
            run: $name,
        }
    };
}

pub(super) use case;
