//! Names in the words of a course.

/// Clients, rounds and turns.
pub(crate) fn client(place: u8) -> char {
    char::from(b'A' + place)
}

/// A node.
pub(crate) fn node(place: u8) -> String {
    format!("node {}", place + 1)
}

/// Nodes, a bit for each.
pub(crate) fn nodes(set: u8) -> String {
    let places = (0..8).filter(|place| set >> place & 1 == 1);
    let names: Vec<String> = places.map(|place| (place + 1).to_string()).collect();
    format!("nodes {}", names.join(" and "))
}
