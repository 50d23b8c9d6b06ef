use super::*;

fn parse(item: TokenStream) -> Function {
    Function::parse(item).unwrap_or_else(|mistake| panic!("{mistake}"))
}

fn names(bindings: Vec<Binding>) -> Vec<String> {
    bindings
        .iter()
        .map(|binding| binding.name.to_string())
        .collect()
}

#[test]
fn every_binding() {
    let function = parse(quote! {
        async fn f(
            &self, mut a: u8, _: u8, Path(b): Path<u8>, (c, [d, ..]): T, ref e: u8,
            Order { f, g: h, .. }: Order, i @ (_, &j): (u8, &u8), (Ok(k) | Err(k)): R,
            #[cfg(unix)] l: u8, _m: u8,
        ) { a.b; c(|| d); i }
    });
    let bindings = function.bindings();
    assert_eq!(bindings[11].cfgs.len(), 1);
    let all = [
        "self", "a", "b", "c", "d", "e", "f", "h", "i", "j", "k", "l", "_m",
    ];
    assert_eq!(names(bindings), all);
    assert_eq!(
        names(function.captured_bindings()),
        ["a", "c", "d", "i", "_m",]
    );
}
