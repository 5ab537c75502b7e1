use std::fs;
use std::io;
use std::path::PathBuf;

use crate::jars::Installed;
use crate::network::Network;
use crate::node::Node;
use crate::yaml::{CERTIFICATE_FILE, PLACE_FILE, Setup, place, yaml};

/// Several nodes that are one cluster. They end, and their data is removed, when this is dropped.
pub struct Nodes {
    nodes: Vec<Node>,
    directory: PathBuf,
    _network: Network,
}

impl Nodes {
    /// Starts them one after the other, each as soon as the one before takes connections: so it hears of those that are there when
    /// it starts. Of nodes that start at the same time, one may not hear of another for minutes. All of them are seeds: so none
    /// waits for data.
    pub fn start(installed: &Installed, count: usize, setup: Setup<'_>) -> io::Result<Nodes> {
        let (network, directory) = (Network::claim(), installed.new_directory());
        let seeds: Vec<_> = (0..count).map(|node| network.host(node)).collect();
        let mut nodes = Vec::new();
        for (index, &host) in seeds.iter().enumerate() {
            let own = directory.join(format!("{}", index + 1));
            let yaml = yaml(host, &seeds, &own, setup);
            let node = Node::new(installed, host, own.clone(), (&yaml, setup.room.wrapper()))?;
            fs::write(own.join(PLACE_FILE), place(index, setup))?;
            if let Some(make) = setup.certificate {
                fs::write(own.join(CERTIFICATE_FILE), make(host))?;
            }
            nodes.push(node);
        }
        let mut nodes = Nodes { nodes, directory, _network: network };
        for node in &mut nodes.nodes {
            node.spawn()?;
            node.wait_until_it_answers();
        }
        Ok(nodes)
    }

    /// One of them.
    pub fn node(&mut self, index: usize) -> &mut Node {
        &mut self.nodes[index]
    }

    /// Where clients connect: `HOST:PORT,…`.
    pub fn addresses(&self) -> String {
        self.nodes.iter().map(|node| node.address().to_string()).collect::<Vec<_>>().join(",")
    }

    /// Kills all of them and starts them again.
    pub fn crash(&mut self) -> io::Result<()> {
        self.nodes.iter_mut().for_each(Node::kill);
        for node in &mut self.nodes {
            node.spawn()?;
        }
        self.nodes.iter_mut().for_each(Node::wait_until_it_answers);
        Ok(())
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.nodes.clear();
        let _ = fs::remove_dir_all(&self.directory);
    }
}
