import java.net.InetSocketAddress;
import java.util.Map;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

/**
 * Serves Iceberg's REST catalogue as the project's own RESTCatalogServer does, on 127.0.0.1 only.
 * Arguments: port, warehouse.
 */
public class Catalogue {
    public static void main(String[] arguments) throws Exception {
        Catalog tables = CatalogUtil.buildIcebergCatalog("lab", Map.of(
            "catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog",
            "uri", "jdbc:sqlite::memory:", "jdbc.schema-version", "V1",
            "warehouse", arguments[1]), new org.apache.hadoop.conf.Configuration());
        ServletContextHandler context = new ServletContextHandler(ServletContextHandler.NO_SESSIONS);
        context.addServlet(
            new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(tables))), "/*");
        Server server = new Server(
            new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])));
        server.setHandler(context);
        server.start();
        server.join();
    }
}
