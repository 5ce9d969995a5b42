//! Rust's rtnetlink: a line of input is a round of listing all links.
use futures::stream::TryStreamExt;
use rtnetlink::packet::rtnl::link::nlas::{Info, InfoKind, Nla};
use rtnetlink::{new_connection, Handle};
use std::io::BufRead;
use std::time::Instant;

#[derive(Default)]
#[allow(dead_code)] // Some of it is decoded and not asked for.
struct Link {
    index: u32,
    flags: u32,
    name: String,
    is_veth: bool,
    master: u32,
    mtu: u32,
    address: Vec<u8>,
}

async fn list(handle: &Handle) -> Result<Vec<Link>, rtnetlink::Error> {
    let mut messages = handle.link().get().execute();
    let mut links = Vec::new();
    while let Some(message) = messages.try_next().await? {
        let mut link = Link { index: message.header.index, flags: message.header.flags, ..Link::default() };
        for attribute in message.nlas {
            match attribute {
                Nla::IfName(name) => link.name = name,
                Nla::Master(master) => link.master = master,
                Nla::Mtu(mtu) => link.mtu = mtu,
                Nla::Address(address) => link.address = address,
                Nla::Info(infos) => link.is_veth = infos.iter().any(|info| matches!(info, Info::Kind(InfoKind::Veth))),
                _ => {}
            }
        }
        links.push(link);
    }
    Ok(links)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (connection, handle, _) = new_connection()?;
        tokio::spawn(connection);
        for line in std::io::stdin().lock().lines() {
            line?;
            let start = Instant::now();
            let links = list(&handle).await?;
            let ms = start.elapsed().as_secs_f64() * 1e3;
            println!(
                "{{\"ms\":{ms:.4},\"links\":{},\"veths\":{},\"masters\":{},\"mtus\":{},\"names\":{}}}",
                links.len(),
                links.iter().filter(|link| link.is_veth).count(),
                links.iter().map(|link| u64::from(link.master)).sum::<u64>(),
                links.iter().map(|link| u64::from(link.mtu)).sum::<u64>(),
                links.iter().map(|link| link.name.len()).sum::<usize>(),
            );
        }
        Ok(())
    })
}
