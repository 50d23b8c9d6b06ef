//! Kinds that the command line and the results name.

/// An enum with the name of each of its kinds.
macro_rules! named {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $kind:ident = $text:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

            pub(crate) fn parse(name: &str) -> Result<Self, String> {
                let known = Self::ALL.into_iter().find(|known| known.name() == name);
                known.ok_or_else(|| {
                    format!("{name} is none of {}", Self::ALL.map(Self::name).join(", "))
                })
            }
        }
    };
}
pub(crate) use named;
