//! The attribute on functions of every shape: each compiles without a warning, takes its lock and
//! gives it back. The nodes are in memory.
#![deny(warnings)]

mod attribute {
    mod arguments;
    mod attributes;
    mod blocking;
    mod cost;
    mod durations;
    mod editions;
    mod frameworks;
    mod generics;
    mod hygiene;
    mod keys;
    mod limits;
    mod options;
    mod order;
    mod receivers;
    mod reentrant;
    mod returns;
    mod send;
    mod support;
    mod traits;
    mod when_held;
}
