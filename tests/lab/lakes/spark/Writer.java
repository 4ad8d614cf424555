import org.apache.spark.sql.SparkSession;

/** Runs the statements of SQL that stand in its arguments; Delta and Iceberg tables are known. */
public class Writer {
    public static void main(String[] statements) {
        SparkSession spark = SparkSession.builder().master("local[1]").appName("writer")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", "1")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension,"
                + "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
            .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
            .config("spark.sql.catalog.ice", "org.apache.iceberg.spark.SparkCatalog")
            .config("spark.sql.catalog.ice.type", "hadoop")
            .config("spark.sql.catalog.ice.warehouse", System.getProperty("warehouse"))
            .config("spark.sql.warehouse.dir", System.getProperty("warehouse"))
            .getOrCreate();
        for (String statement : statements) {
            spark.sql(statement);
        }
        spark.stop();
    }
}
