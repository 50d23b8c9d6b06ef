use super::*;

fn parse(item: TokenStream) -> Function {
    Function::parse(item).unwrap_or_else(|mistake| panic!("{mistake}"))
}

fn mistake(item: TokenStream) -> String {
    match Function::parse(item) {
        Ok(function) => panic!("{} is accepted", function.head),
        Err(mistake) => mistake.to_string(),
    }
}

fn names(bindings: Vec<Binding>) -> Vec<String> {
    bindings
        .iter()
        .map(|binding| binding.name.to_string())
        .collect()
}

#[test]
fn signature_and_body_stay_as_they_are() {
    let function = parse(quote! {
        #[doc = "d"] pub(crate) async unsafe fn f<'a, T>(mut a: T) -> Option<impl Fn(T)>
        where T: 'a { #![allow(unused)] let half = ; }
    });
    let head = quote! {
        #[doc = "d"] pub(crate) async unsafe fn f<'a, T>(mut a: T) -> Option<impl Fn(T)>
        where T: 'a
    };
    assert_eq!(function.head.to_string(), head.to_string());
    assert_eq!(
        function.inner_attributes.to_string(),
        quote!(#![allow(unused)]).to_string()
    );
    assert_eq!(
        function.body.to_string(),
        quote!({ let half = ; }).to_string()
    );
    assert_eq!(function.output.to_string(), quote!(Option<_>).to_string());
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

#[test]
fn boxed_futures_of_other_attributes() {
    let function = parse(quote! {
        fn f<'a>(&'a self) -> ::core::pin::Pin<Box<
            dyn ::core::future::Future<Output = Result<Vec<u8>, E>> + ::core::marker::Send + 'a
        >> { ::std::boxed::Box::pin(#[allow(x)] async move { body }) }
    });
    let boxed = function.boxed.unwrap();
    assert_eq!(
        boxed.before.to_string(),
        quote!(::std::boxed::Box::pin).to_string()
    );
    assert_eq!(
        boxed.attributes.to_string(),
        quote!(#[allow(x)]).to_string()
    );
    assert_eq!(function.body.to_string(), quote!({ body }).to_string());
    assert_eq!(
        function.output.to_string(),
        quote!(Result<Vec<u8>, E>).to_string()
    );
}

#[test]
fn functions_that_block() {
    for item in [
        quote!(
            fn f() {}
        ),
        quote!(
            pub fn f<'a, T>(&'a self, it: T) -> Result<&'a T, E> {
                self.runtime.block_on(it.get())
            }
        ),
        quote!(
            fn f() -> impl Iterator<Item = u8> {
                []
            }
        ),
    ] {
        assert!(parse(item).is_blocking);
    }
    assert!(
        !parse(quote!(
            async fn f() {}
        ))
        .is_blocking
    );
    let output = parse(quote!(
        fn f() -> impl Iterator<Item = u8> {}
    ));
    assert_eq!(output.output.to_string(), "_");
}

#[test]
fn functions_that_cannot_block() {
    let makes_future = "this function only makes a future, or drives one; if an attribute above it \
                        removed `async`, put `#[redis_lock]` first, else make it an `async fn`, or \
                        lock where the function is called: \
                        `redlock.lock(key).hold(async |_| f(..))`";
    for item in [
        quote!(
            fn f() -> impl Future<Output = u8> {
                async move { 1 }
            }
        ),
        quote!(
            fn f() -> Pin<Box<dyn Future<Output = u8>>> {
                other()
            }
        ),
        quote!(
            fn f() -> BoxFuture<'static, u8> {
                other()
            }
        ),
        quote!(
            fn main() {
                let body = async {};
                Builder::new().block_on(body)
            }
        ),
    ] {
        assert_eq!(mistake(item).replace("main(..)", "f(..)"), makes_future);
    }
    assert_eq!(
        mistake(quote!(
            const fn f() {}
        )),
        "a `const fn` cannot wait for a lock; `#[redis_lock]` needs an `async fn` or a `fn`"
    );
    let message =
        "`#[redis_lock]` needs a safe `fn`, or an `async fn`; lock a safe function that calls `f`";
    for item in [
        quote!(
            unsafe fn f() {}
        ),
        quote!(
            extern "C" fn f() {}
        ),
    ] {
        assert_eq!(mistake(item), message);
    }
}

#[test]
fn all_of_a_boxed_future_is_locked() {
    assert_eq!(
        mistake(quote!(
            fn f() -> Pin<Box<dyn Future<Output = u8>>> {
                charge();
                Box::pin(async move { 1 })
            }
        )),
        "what stands before this `Box::pin` would run without the lock; \
         move it into the `async move` block"
    );
}

#[test]
fn nothing_to_lock() {
    assert_eq!(
        mistake(quote!(
            async fn f(&self);
        )),
        "`#[redis_lock]` needs a body to lock; put it on the implementations"
    );
    assert_eq!(
        mistake(quote!(
            async fn f() -> ! {
                loop {}
            }
        )),
        "a function that never returns would never release its lock; \
         lock what its loop does in a function of its own"
    );
}

#[test]
fn not_a_function() {
    for item in [
        quote!(
            pub struct S {}
        ),
        quote!(
            const N: u8 = 5;
        ),
        quote!(
            unsafe impl Send for S {}
        ),
        quote!(
            pub mod m {}
        ),
        quote!(
            extern "C" {}
        ),
    ] {
        let message = mistake(item);
        assert!(message.starts_with("`#[redis_lock]` locks the body of a function: "));
        assert!(message.ends_with("expected `fn`"), "{message}");
    }
}
