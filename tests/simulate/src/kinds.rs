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

            /// The kind with this name.
            #[allow(dead_code)]
            pub(crate) fn parse(name: &str) -> Result<Self, String> {
                let known = Self::ALL.into_iter().find(|known| known.name() == name);
                known.ok_or_else(|| {
                    format!("{name} is none of {}", Self::ALL.map(Self::name).join(", "))
                })
            }
        }
    };
}
