//! Kinds of things that are counted and told by name.

/// An enum with the name of each of its kinds on the command line and in the report.
#[macro_export]
macro_rules! kinds {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $kind:ident = $text:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum $name {
            $($(#[$doc])* $kind,)*
        }

        impl $name {
            pub(crate) const ALL: [Self; [$($text),*].len()] = [$(Self::$kind),*];

            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $text,)*
                }
            }
        }
    };
}

/// The kind with this name.
pub(crate) fn named<K: Copy>(all: &[K], name: fn(K) -> &'static str, text: &str) -> Option<K> {
    all.iter().copied().find(|&kind| name(kind) == text)
}
